// What waits for whoever is at the page.

import { api, ask, type Schemas } from './api/client';
import { Resource } from './resource.svelte';
import { live } from './live/live.svelte';

export interface Waiting {
	kind: 'approval' | 'pairing' | 'attestation' | 'lobby';
	id: string;
	/** What it is about, in somebody else's words. */
	subject: string;
	/** What is asked of the reader, in ours. */
	what: string;
	/** What else is known, to be compared by eye. */
	detail?: string;
	at?: string;
	until?: string;
	/** Where it is decided; here, if absent. */
	href?: string;
	/** Says yes or no to it. */
	decide?: (yes: boolean) => Promise<unknown>;
}

/** What a runbook found within a day, the last time it ran there. */
export interface Found {
	/** The run's id. */
	run: string;
	machine: string;
	runbook: string;
	status: string;
	titles: string[];
	at?: string;
}

const KINDS = new Set(['reset', 'approval', 'pairing', 'agent', 'room', 'finding', 'client']);

class Inbox extends Resource<Waiting[]> {
	/** What runbooks found: worth a look, but nothing that waits for a decision. */
	found = $state.raw<Found[]>();
	readonly approvals = $derived(this.#count((item) => item.kind === 'approval'));
	readonly others = $derived(this.#count((item) => item.kind !== 'approval'));

	#count(which: (item: Waiting) => boolean): number {
		return this.data?.filter(which).length ?? 0;
	}

	/** Keeps it true while the page is there. */
	watch(): () => void {
		void this.reload();
		const deaf = live.listen((event) => {
			if (event.kind === 'agent' && event.data.change !== 'attestation') return;
			if (KINDS.has(event.kind)) this.reloadSoon();
		});
		return () => {
			deaf();
			this.forget();
		};
	}
}

async function load(): Promise<Waiting[]> {
	const read = await ask(api.GET('/api/inbox'));
	inbox.found = read.findings.filter((one) => 'run' in detail(one)).map(ofRun);
	return [
		...read.approvals.map(ofApproval),
		...read.pairings.map(ofPairing),
		...read.lobby.map(ofLobby),
		...read.attestation.map(ofAttestation),
	];
}

type One = Schemas['Waiting'];

const base = (one: One) => ({ id: one.id, subject: one.subject, at: one.at ?? undefined, until: one.until ?? undefined });
const detail = (one: One) => one.detail as Record<string, unknown>;
const text = (value: unknown) => (typeof value === 'string' ? value : '');

function ofApproval(approval: Schemas['ApprovalView']): Waiting {
	return {
		kind: 'approval',
		id: approval.id,
		subject: `${approval.tool} on ${approval.target}`,
		what: `${approval.caller} asks`,
		at: approval.created_at,
		until: approval.expires_at,
		href: `/approvals/${approval.id}`,
	};
}

function ofPairing(one: One): Waiting {
	const fingerprint = text(detail(one).key_fingerprint);
	return {
		...base(one),
		kind: 'pairing',
		what: 'A client wants to pair',
		detail: fingerprint ? `key ${fingerprint}` : undefined,
		decide: (approve) =>
			ask(api.POST('/api/yonexus/pairings/{identifier}', { params: { path: { identifier: one.id } }, body: { approve } })),
	};
}

function ofLobby(one: One): Waiting {
	const room = text(detail(one).room);
	return {
		...base(one),
		id: `${room}/${one.id}`,
		kind: 'lobby',
		what: `waits at the door of the room ${room}`,
		decide: (admit) =>
			ask(api.POST('/api/rooms/{room}/admit', { params: { path: { room } }, body: { participant: one.id, admit } })),
	};
}

function ofAttestation(one: One): Waiting {
	const agent = text(detail(one).agent) || one.id;
	return {
		...base(one),
		kind: 'attestation',
		what: 'is not what it was when it enrolled',
		href: `/machines/${encodeURIComponent(agent)}/manage`,
	};
}

function ofRun(one: One): Found {
	const { run, agent, runbook, status, titles } = detail(one);
	return {
		run: text(run),
		machine: text(agent),
		runbook: text(runbook),
		status: text(status),
		titles: Array.isArray(titles) ? titles.map(text) : [],
		at: one.at ?? undefined,
	};
}

export const inbox = new Inbox(load);
