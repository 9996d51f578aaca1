// What waits for whoever is at the page.

import { api, ask, type Schemas } from './api/client';
import { Resource } from './resource.svelte';
import { live } from './live/live.svelte';

export interface Waiting {
	kind: 'approval' | 'pairing' | 'attestation' | 'lobby' | 'finding';
	id: string;
	/** What it is about, in somebody else's words. */
	subject: string;
	/** What is asked of the reader, in ours. */
	what: string;
	at?: string;
	until?: string;
	href: string;
}

const KINDS = new Set(['reset', 'approval', 'pairing', 'agent', 'room', 'finding', 'client']);

class Inbox extends Resource<Waiting[]> {
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
	const [approvals, pairings] = await Promise.all([
		ask(api.GET('/api/approvals', { params: { query: { limit: 200 } } })),
		ask(api.GET('/api/yonexus/pairings')),
	]);
	return [...approvals.approvals.map(ofApproval), ...pairings.pairings.map(ofPairing)];
}

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

function ofPairing(pairing: { identifier: string; expires_at?: string | null }): Waiting {
	return {
		kind: 'pairing',
		id: pairing.identifier,
		subject: pairing.identifier,
		what: 'A client wants to pair',
		until: pairing.expires_at ?? undefined,
		href: '/',
	};
}

export const inbox = new Inbox(load);
