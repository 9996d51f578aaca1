// What a way into a room gives the page and what the page wants of it, whether content goes through the hub or directly.

import type { Payload } from './content';
import { disclosed, isRecord, type Kind } from './grants';
import type { MediaView } from './lanes';

/** Somebody in the roster, as the hub lists them. */
export interface Member {
	id: string;
	name: string;
	kind: Kind;
	/** The hub itself, or another that only watches over the room: it has no tile. */
	isHub: boolean;
	cam: boolean;
	backend?: string;
	egress: boolean;
	state?: string;
	isPresenting: boolean;
	hasMic: boolean;
	/** How a host holds this agent back. */
	hold?: 'paused' | 'silenced';
	/** The hub speaks for them on the mesh, and can read what it carries. */
	isBridged: boolean;
}

export interface Roster {
	members: Member[];
	host: string;
	lobby: boolean;
	locked: boolean;
	/** The agent whose turn it is to speak. */
	floor: string;
}

/** Somebody who waits at the door. */
export interface Waiting {
	id: string;
	name: string;
	kind: Kind;
}

/** A line of the room's own log. */
export interface LogLine {
	at: number;
	id: string;
	name: string;
	kind: string;
	detail: string;
}

/** What a participant says about itself. */
export interface Announce {
	name: string;
	/** A secret by which it is the same one when it comes again. */
	token: string;
	jwt?: string;
	meta?: Record<string, unknown>;
	cam: boolean;
}

/** What this participant says about itself, with a credential that counts now: asked for each connection. */
export type Fresh = () => Promise<Announce>;

/** Why a room that cannot be reached is over; nothing, if it may come back. */
export type StillThere = () => Promise<Ending | undefined>;

/** Why it is over, or not yet. */
export type Ending = 'kicked' | 'denied' | 'locked' | 'unverified' | 'replaced' | 'removed' | 'full' | 'broken';

/** What a transport tells the page. */
export interface Sink {
	/** It is connected and in the room, under this id. */
	joined(id: string, name: string, kind: Kind): void;
	/** The connection is gone; it tries again by itself. */
	away(): void;
	waiting(): void;
	over(why: Ending, words?: string): void;
	roster(roster: Roster): void;
	grants(grants: Record<string, unknown>): void;
	content(from: string, payload: unknown, isFromHub: boolean): void;
	/** What this participant said was not handed on. */
	refused(reason: string, words: string, reference?: number): void;
	/** What somebody else said was dropped here. */
	blocked(from: string, what: string): void;
	/** This participant may moderate, these wait at the door, and this everybody may but for holds. */
	hosting(waiting: Waiting[], grants: Record<string, unknown>): void;
	logged(lines: LogLine[]): void;
	cleared(): void;
	/** Sound and pictures go this way, too. */
	media(media: MediaView): void;
}

/** A way into a room. */
export interface Transport {
	/** Says something to all, or to one. `reference` comes back with a refusal. */
	say(payload: Payload, reference: number, to?: string): void;
	/** A host's command. */
	moderate(op: string, more?: Record<string, unknown>): void;
	/** Leaves for good. */
	leave(): void;
}

const STATES = ['listening', 'thinking', 'speaking', 'working'];

/** Reads a roster; nothing, where it is none. */
export function readRoster(frame: Record<string, unknown>): Roster | undefined {
	if (!Array.isArray(frame.members)) return undefined;
	const members = frame.members.flatMap((one) => readMember(one) ?? []);
	const host = typeof frame.host === 'string' ? frame.host : '';
	const floor = typeof frame.floor === 'string' ? frame.floor : '';
	return { members, host, lobby: frame.lobby === true, locked: frame.locked === true, floor };
}

function readMember(value: unknown): Member | undefined {
	if (!isRecord(value) || typeof value.id !== 'string') return undefined;
	const meta = isRecord(value.meta) ? value.meta : {};
	const backend = disclosed(meta.backend);
	const state = [meta.state, meta.activity].find((word) => typeof word === 'string' && STATES.includes(word));
	return {
		id: value.id,
		name: typeof value.name === 'string' && value.name !== '' ? value.name : value.id,
		kind: meta.role === 'agent' ? 'agent' : 'human',
		isHub: meta.role === 'kibitzer',
		cam: value.cam === true,
		backend,
		egress: meta.egress === true || backend !== undefined,
		state: state as string | undefined,
		isPresenting: meta.presenting === true,
		hasMic: meta.mic === true,
		hold: meta.hold === 'paused' || meta.hold === 'silenced' ? meta.hold : undefined,
		isBridged: meta.bridged === true,
	};
}

/** Who waits, as a host is told. */
export function readWaiting(value: unknown): Waiting[] {
	return list(value).map((one) => ({ id: text(one.id), name: text(one.name), kind: one.kind === 'agent' ? 'agent' : 'human' }));
}

/** Lines of the room's log, as a host is told. */
export function readLog(value: unknown): LogLine[] {
	return list(value).map((one) => ({
		at: typeof one.at === 'number' ? one.at : Date.now(),
		id: text(one.id),
		name: text(one.name),
		kind: text(one.kind),
		detail: text(one.detail),
	}));
}

function list(value: unknown): Record<string, unknown>[] {
	return Array.isArray(value) ? value.filter(isRecord) : [];
}

function text(value: unknown): string {
	return typeof value === 'string' ? value : '';
}

/** How long to wait before the next try: longer each time, and not all at the same moment. */
export function pause(tries: number): number {
	const most = Math.min(8_000, 500 * 2 ** tries);
	return most / 2 + Math.random() * (most / 2);
}
