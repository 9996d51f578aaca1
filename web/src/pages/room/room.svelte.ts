// A room as one participant sees it: who is there, who may what, what was said. Everything is bounded, since others fill it.

import { SvelteMap } from 'svelte/reactivity';
import { cut, hear, type Payload } from './content';
import { allows, type Capability, defaultOf, type Grant, isRecord, type Kind, readGrant } from './grants';
import type { MediaView } from './lanes';
import type { Ending, LogLine, Member, Roster, Sink, Transport, Waiting } from './transport';

const MAX_LINES = 500;
const MAX_VIEWS = 25;
const MAX_SCHEMAS = 200;
const MAX_LOG = 80;
const MAX_ACTIONS = 12;
const MAX_LABEL = 40;
const MAX_HINT = 200;

/** A line of what was said. */
export interface Line {
	key: number;
	at: number;
	from: string;
	name: string;
	isAgent: boolean;
	isMine: boolean;
	/** Said to one participant alone: to whom, by name. */
	to?: string;
	isDirect: boolean;
	kind: 'chat' | 'act' | 'data' | 'pay' | 'note';
	text: string;
	/** Application data, for what is not words. */
	data?: unknown;
	/** By which rule of which client the hub said it. */
	rule?: string;
	sender?: string;
	part?: string;
	/** What became of it: a refusal's reason, or the answer to an act. */
	refused?: string;
	/** An act's number, for its answer. */
	id?: string;
	answer?: { ok: boolean; words: string };
}

export interface View {
	from: string;
	name: string;
	at: number;
	view: unknown;
}

/** Something that an agent does when somebody asks for it. */
export interface Action {
	id: string;
	label: string;
	hint: string;
}

export interface Schema {
	from: string;
	name: string;
	version: string;
	schema: unknown;
	by: string;
}

export type Phase = 'connecting' | 'waiting' | 'in' | 'over';

/** Makes a way into the room; the mesh's is loaded only for rooms that need it. */
export type Open = (sink: Sink) => Transport | Promise<Transport>;

const REASONS: Record<string, string> = {
	'send-chat': 'you may not write here',
	act: 'you may not act here',
	'receive-directed': 'they may not receive messages',
	unknown: 'they are not here any more',
	absent: 'you are not in the room',
	away: 'the connection is down',
	host: 'only a host may do that',
	floor: 'another agent has the floor',
	rate: 'too much at once; some of it was dropped',
};

export class Room implements Sink {
	phase = $state<Phase>('connecting');
	/** The connection is down, and comes back by itself. */
	isAway = $state(false);
	ending = $state.raw<{ why: Ending; words?: string }>();
	me = $state.raw<{ id: string; name: string; kind: Kind }>();
	present = $state.raw<Roster>({ members: [], host: '', lobby: false, locked: false, floor: '' });
	lines = $state.raw<Line[]>([]);
	views = $state.raw<View[]>([]);
	schemas = $state.raw<Schema[]>([]);
	log = $state.raw<LogLine[]>([]);
	waits = $state.raw<Waiting[]>([]);
	isHost = $state(false);
	/** Sound and pictures, in rooms that have them. */
	lanes = $state.raw<MediaView>();
	/** Lines that came since the chat was last looked at. */
	unread = $state(0);
	isLooking = true;
	/** Advances once a second while somebody has a grant that ends. */
	now = $state(Date.now());

	readonly #grants = new SvelteMap<string, Grant>();
	/** What hosts are told: the grants without what a hold takes away for now. */
	#given = $state.raw(new Map<string, Grant>());
	#transport: Transport | undefined;
	#isLeft = false;
	#next = 1;
	#clock: ReturnType<typeof setInterval>;

	constructor(open: Open) {
		this.#clock = setInterval(() => (this.now = Date.now()), 1_000);
		void this.#begin(open);
	}

	async #begin(open: Open) {
		try {
			const transport = await open(this);
			if (this.#isLeft) transport.leave();
			else this.#transport = transport;
		} catch (why) {
			this.over('broken', why instanceof Error ? why.message : String(why));
		}
	}

	/** Everybody but the hub, this participant first. */
	get people(): Member[] {
		const mine = this.me?.id;
		return this.present.members.filter((member) => !member.isHub).toSorted((a, b) => Number(b.id === mine) - Number(a.id === mine));
	}

	member(id: string): Member | undefined {
		return this.present.members.find((member) => member.id === id);
	}

	/** The grant in force of somebody, as far as the hub has said. */
	grant(id: string): Grant {
		return this.#grants.get(id) ?? defaultOf(this.member(id)?.kind ?? 'human');
	}

	/** What somebody was granted, whether or not they are held back now. */
	given(id: string): Grant {
		return this.#given.get(id) ?? this.grant(id);
	}

	may(id: string, capability: Capability): boolean {
		return allows(this.grant(id), capability, this.now);
	}

	iMay(capability: Capability): boolean {
		return this.me !== undefined && this.may(this.me.id, capability);
	}

	chat(text: string, to?: Member): void {
		const words = text.trim();
		if (words === '' || !this.me) return;
		const key = this.#next++;
		const payload: Payload = { k: 'chat', text: words, mid: `${this.me.id}#${key}`, ts: Date.now(), ...(to ? { dm: true } : {}) };
		this.#add({ key, from: this.me.id, name: this.me.name, isAgent: this.me.kind === 'agent', isMine: true, isDirect: to !== undefined, to: to?.name, kind: 'chat', text: words });
		this.#transport?.say(payload, key, to?.id);
	}

	/** What an agent offers as buttons, in a schema of a fixed name. */
	actions(id: string): Action[] {
		const schema = this.schemas.find((one) => one.from === id && one.name === 'agent-actions')?.schema;
		const offered = isRecord(schema) && Array.isArray(schema.actions) ? schema.actions.slice(0, MAX_ACTIONS) : [];
		return offered.flatMap((one: unknown) => {
			if (!isRecord(one) || typeof one.id !== 'string' || typeof one.label !== 'string') return [];
			return [{ id: one.id, label: cut(one.label, MAX_LABEL), hint: typeof one.desc === 'string' ? cut(one.desc, MAX_HINT) : '' }];
		});
	}

	/** Asks an agent for one of its actions. */
	ask(agent: string, action: string): void {
		this.#transport?.say({ k: 'app', data: { kind: 'agent-action@1', id: action } }, this.#next++, agent);
	}

	moderate(op: string, more?: Record<string, unknown>): void {
		this.#transport?.moderate(op, more);
	}

	leave(): void {
		this.#isLeft = true;
		clearInterval(this.#clock);
		this.#transport?.leave();
	}

	/** The chat is on the screen, or not any more. */
	look(isLooking: boolean): void {
		this.isLooking = isLooking;
		if (isLooking) this.unread = 0;
	}

	// What the transport tells.

	joined(id: string, name: string, kind: Kind): void {
		const wasAway = this.isAway;
		if (!isSame(this.me, { id, name, kind })) this.me = { id, name, kind };
		this.phase = 'in';
		this.isAway = false;
		if (wasAway) this.#note('connected again');
	}

	away(): void {
		if (this.phase === 'in' && !this.isAway) this.#note('the connection is gone; what is said now is missed');
		this.isAway = true;
	}

	waiting(): void {
		this.isAway = false;
		this.phase = 'waiting';
	}

	over(why: Ending, words?: string): void {
		this.leave();
		this.ending = { why, words };
		this.phase = 'over';
	}

	roster(roster: Roster): void {
		// The mesh repeats it every few seconds.
		if (isSame(roster, this.present)) return;
		const before = new Map(this.present.members.map((member) => [member.id, member]));
		const isFirst = before.size === 0;
		this.present = roster;
		const there = new Set(roster.members.map((member) => member.id));
		for (const member of roster.members) {
			if (!isFirst && !before.has(member.id) && !member.isHub && member.id !== this.me?.id) this.#note('came in', member);
		}
		for (const member of before.values()) {
			if (there.has(member.id)) continue;
			this.#grants.delete(member.id);
			this.schemas = this.schemas.filter((schema) => schema.from !== member.id);
			if (!member.isHub && member.id !== this.me?.id) this.#note('left', member);
		}
	}

	grants(grants: Record<string, unknown>): void {
		for (const id of [...this.#grants.keys()]) if (!(id in grants)) this.#grants.delete(id);
		for (const [id, value] of Object.entries(grants)) {
			const [before, grant] = [this.#grants.get(id), readGrant(value)];
			if (!before || !isSame({ ...before, capabilities: [...before.capabilities] }, { ...grant, capabilities: [...grant.capabilities] })) this.#grants.set(id, grant);
		}
	}

	content(from: string, payload: unknown, isFromHub: boolean): void {
		const heard = hear(payload, isFromHub);
		if (!heard) return;
		const member = this.member(from);
		const name = isFromHub ? 'hub' : (member?.name ?? from);
		const line = { from, name, isAgent: member?.kind === 'agent', isMine: false, isDirect: false };
		switch (heard.kind) {
			case 'chat': {
				const { text, isDirect, rule, sender, part } = heard;
				this.#hear({ ...line, kind: 'chat', text, isDirect, rule, sender, part });
				break;
			}
			case 'pay':
				this.#hear({ ...line, kind: 'pay', text: heard.label, data: heard.url });
				break;
			case 'act':
				// The hub brings what an agent asks for, and says who does.
				this.#hear({ ...line, ...(isFromHub && heard.from ? this.#as(heard.from) : {}), kind: 'act', text: '', data: heard.action, id: heard.id });
				break;
			case 'acted':
				this.lines = this.lines.map((one) => (one.kind === 'act' && one.id === heard.id ? { ...one, answer: { ok: heard.ok, words: heard.words } } : one));
				break;
			case 'data':
				this.#hear({ ...line, kind: 'data', text: '', data: heard.data });
				break;
			case 'view': {
				const rest = this.views.filter((view) => view.from !== from);
				this.views = [{ from, name, at: Date.now(), view: heard.view }, ...rest].slice(0, MAX_VIEWS);
				break;
			}
			case 'schema': {
				const rest = this.schemas.filter((schema) => schema.from !== from || schema.name !== heard.name);
				this.schemas = [...rest, { from, by: name, name: heard.name, version: heard.version, schema: heard.schema }].slice(-MAX_SCHEMAS);
				break;
			}
		}
	}

	refused(reason: string, words: string, reference?: number): void {
		const why = REASONS[reason] ?? words;
		const isLine = reference !== undefined && this.lines.some((line) => line.key === reference);
		if (isLine) this.lines = this.lines.map((line) => (line.key === reference ? { ...line, refused: why } : line));
		else this.#note(why);
	}

	blocked(from: string, what: string): void {
		const name = this.member(from)?.name ?? from;
		this.logged([{ at: Date.now(), id: from, name, kind: 'blocked', detail: `${what}, dropped here` }]);
	}

	hosting(waiting: Waiting[], grants: Record<string, unknown>): void {
		this.isHost = true;
		this.waits = waiting;
		this.#given = new Map(Object.entries(grants).map(([id, grant]) => [id, readGrant(grant)]));
	}

	logged(lines: LogLine[]): void {
		this.log = [...this.log, ...lines].slice(-MAX_LOG);
	}

	media(media: MediaView): void {
		this.lanes = media;
	}

	cleared(): void {
		this.lines = [];
		this.#note('a host cleared what was said');
	}

	#as(id: string) {
		const member = this.member(id);
		return { from: id, name: member?.name ?? id, isAgent: member?.kind !== 'human' };
	}

	#hear(line: Omit<Line, 'key' | 'at'>) {
		this.#add({ key: this.#next++, ...line });
		if (!this.isLooking) this.unread += 1;
	}

	#note(text: string, member?: Member) {
		this.#add({ key: this.#next++, from: member?.id ?? '', name: member?.name ?? '', isAgent: member?.kind === 'agent', isMine: false, isDirect: false, kind: 'note', text });
	}

	#add(line: Omit<Line, 'at'>) {
		this.lines = [...this.lines, { at: Date.now(), ...line }].slice(-MAX_LINES);
	}
}

/** Whether two plain values say the same. */
function isSame(one: unknown, other: unknown): boolean {
	return JSON.stringify(one) === JSON.stringify(other);
}
