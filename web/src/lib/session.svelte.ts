// Who is at the page: a signed-in user, or whoever pasted a token. The token is in this tab's memory and nowhere else.

import { Failure, type Schemas, send, useToken, whenSignedOut } from './api/client';
import { live } from './live/live.svelte';

export interface Who {
	user: string;
	role: string;
	rights: string[];
	scopes?: Schemas['Scopes'];
	/** Whether this is who started the hub and is no user yet. */
	welcome?: boolean;
	session?: Schemas['OwnSession'] | null;
	/** Whether a token was pasted: then there is no session to step up or to end. */
	byToken: boolean;
}

class Session {
	who = $state.raw<Who>();
	/** Whether it was asked already. */
	isKnown = $state(false);
	/** Why the page was left. */
	message = $state('');

	constructor() {
		whenSignedOut(() => this.#lost());
	}

	/** Whether this person may do that. The hub decides; this is for not offering what it would refuse. */
	may(right: string): boolean {
		return this.who?.rights.includes(right) ?? false;
	}

	/** Finds out whether the browser has a session. */
	async begin(): Promise<void> {
		try {
			this.#enter(await whoAmI(), undefined);
		} catch (why) {
			if (why instanceof Failure && why.isAway) this.message = 'The hub does not answer. Is it running?';
		}
		this.isKnown = true;
	}

	async signInWithToken(token: string): Promise<void> {
		useToken(token);
		try {
			this.#enter(await whoAmI(), token);
		} catch (why) {
			useToken(undefined);
			throw why;
		}
	}

	async signOut(): Promise<void> {
		if (this.who && !this.who.byToken) await send('DELETE', '/api/session');
		this.message = '';
		this.#leave();
	}

	/** After a sign-in that set the cookie. */
	async enter(): Promise<void> {
		useToken(undefined);
		this.#enter(await whoAmI(), undefined);
	}

	/** Asks again who it is: something about them changed. */
	async refresh(): Promise<void> {
		const who = await whoAmI();
		if (this.who) this.who = { ...who, byToken: this.who.byToken };
	}

	#enter(who: Omit<Who, 'byToken'>, token: string | undefined) {
		this.who = { ...who, byToken: token !== undefined };
		this.message = '';
		live.open(token, () => this.#lost());
	}

	#lost() {
		if (!this.who) return;
		this.message = this.who.byToken
			? 'The hub no longer takes that token. Sign in again.'
			: 'Your session has ended. Sign in again.';
		this.#leave();
	}

	#leave() {
		useToken(undefined);
		live.close();
		this.who = undefined;
	}
}

async function whoAmI(): Promise<Omit<Who, 'byToken'>> {
	const who = await send<Omit<Who, 'byToken' | 'user'> & { user: string | null }>('GET', '/api/session');
	return { ...who, user: who.user ?? '' };
}

export const session = new Session();
