// What one participant of the mesh holds the others to. Content goes from one to another, so what a sender may not say is
// dropped here on its arrival, and what a receiver may not perceive is not sent to it.
//
// Who may what is what the authority says over its own connection, and nobody else's word counts.

import { kindOf } from './content';
import { allows, type Capability, defaultOf, type Grant, isRecord, NOTHING, readGrant } from './grants';
import type { Member, Roster } from './transport';

export type Arrived = { is: 'content' } | { is: 'caps'; grants: Record<string, unknown> } | { is: 'blocked'; what: string } | { is: 'nothing' };

export class Enforcer {
	host = '';
	members: Member[] = [];
	#grants: Map<string, Grant> | undefined;

	constructor(readonly me: string) {}

	/** Whether the authority has said who may what. */
	get isTold(): boolean {
		return this.#grants !== undefined;
	}

	onRoster(roster: Roster): void {
		// Grants of an authority that is gone are nobody's word.
		if (roster.host !== this.host) this.#grants = undefined;
		this.host = roster.host;
		this.members = roster.members;
	}

	/** What somebody may do, as far as is known: an agent of whom nothing was said yet may only read. */
	grant(id: string): Grant {
		const found = this.#grants?.get(id);
		if (found) return found;
		const member = this.members.find((one) => one.id === id);
		return member ? defaultOf(member.kind) : NOTHING;
	}

	may(capability: Capability, now: number): boolean {
		return allows(this.grant(this.me), capability, now);
	}

	/**
	 * Whether somebody may perceive this. Where an authority gives out grants, nothing is sent to an agent or to the hub before it has:
	 * what was taken from it must not reach it in the moment between the roster and the grants.
	 */
	perceives(id: string, capability: Capability, now: number): boolean {
		const member = this.members.find((one) => one.id === id);
		if (!member) return false;
		if (this.host !== '' && !this.#grants?.has(id) && (member.kind === 'agent' || member.isHub)) return false;
		return allows(this.grant(id), capability, now);
	}

	/** Whether a lane of sound or pictures may go to somebody: only once the authority has said what they may. */
	receives(id: string, capability: 'hear-audio' | 'see-screen', now: number): boolean {
		if (this.host !== '' && !this.#grants?.has(id)) return false;
		return this.perceives(id, capability, now);
	}

	/** To whom something is sent that is meant for all. */
	hearers(now: number): string[] {
		return this.members.filter(({ id }) => id !== this.me && this.perceives(id, 'read-chat', now)).map(({ id }) => id);
	}

	/** Content came over the data connection of this media peer. */
	onContent(from: string, payload: unknown, now: number): Arrived {
		const what = kindOf(payload);
		if (what === '' || !isRecord(payload) || what === 'idtoken') return { is: 'nothing' };
		const isHost = this.host !== '' && from === this.host;
		if (what === 'caps') {
			if (!isHost || !isRecord(payload.grants)) return { is: 'nothing' };
			this.#grants = new Map(Object.entries(payload.grants).map(([id, grant]) => [id, readGrant(grant)]));
			return { is: 'caps', grants: payload.grants };
		}
		// The authority's own words are no participant's.
		if (isHost) return { is: 'content' };
		const member = this.members.find((one) => one.id === from);
		// Nobody is heard who is not in the roster.
		if (!member) return { is: 'blocked', what };
		if (what === 'view' && member.kind === 'agent') return { is: 'blocked', what };
		// An action passes the hub's gate and comes from the hub: one that was sent past it counts for nothing.
		if (what === 'act' && this.host !== '') return { is: 'blocked', what };
		const grant = this.grant(from);
		const needed: Capability[] = what === 'act' ? ['send-chat', 'act'] : ['send-chat'];
		return needed.every((capability) => allows(grant, capability, now)) ? { is: 'content' } : { is: 'blocked', what };
	}
}

/** Of two the smaller id dials, in UTF-16 code units, as everywhere in the field. */
export function dials(me: string, other: string): boolean {
	return me < other;
}
