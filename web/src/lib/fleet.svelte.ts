// All machines that this person may see, kept as the hub has them.

import { api, ask, pages, type Schemas } from './api/client';
import type { LiveEvent } from './live/events';
import { live } from './live/live.svelte';
import { Resource } from './resource.svelte';

export type Machine = Schemas['Agent'];

/** More changes than this at once, and the whole list is read anew. */
const ONE_BY_ONE = 20;
const GATHER_MS = 60;

class Fleet extends Resource<Machine[]> {
	#changed = new Set<string>();
	#timer: ReturnType<typeof setTimeout> | undefined;
	#watchers = 0;
	#deaf: () => void = () => {};

	/** Keeps it true for as long as somebody looks. */
	watch(): () => void {
		if (this.#watchers++ === 0) {
			void this.reload();
			this.#deaf = live.listen((event) => this.#heard(event));
		}
		return () => {
			if (--this.#watchers > 0) return;
			this.#deaf();
			clearTimeout(this.#timer);
			this.#timer = undefined;
			this.stop();
		};
	}

	one(id: string): Machine | undefined {
		return this.data?.find((machine) => machine.id === id);
	}

	#heard(event: LiveEvent) {
		if (event.kind === 'reset') return this.reloadSoon();
		if (event.kind !== 'agent' || typeof event.data.agent !== 'string') return;
		this.#changed.add(event.data.agent);
		this.#timer ??= setTimeout(() => void this.#refresh(), GATHER_MS);
	}

	async #refresh() {
		this.#timer = undefined;
		const ids = [...this.#changed];
		this.#changed.clear();
		if (ids.length > ONE_BY_ONE || this.isLoading) return this.reloadSoon();
		const read = await Promise.all(ids.map((id) => one(id)));
		if (!this.data) return;
		const byId = new Map(this.data.map((machine) => [machine.id, machine]));
		for (const [i, id] of ids.entries()) {
			const machine = read[i];
			if (machine) byId.set(id, machine);
			else byId.delete(id);
		}
		this.data = [...byId.values()].sort((a, b) => (a.id < b.id ? -1 : 1));
	}
}

async function one(id: string): Promise<Machine | undefined> {
	return ask(api.GET('/api/agents/{id}', { params: { path: { id } } })).catch(() => undefined);
}

async function all(): Promise<Machine[]> {
	return pages(
		(after: string | null | undefined) =>
			ask(api.GET('/api/agents', { params: { query: { limit: 1000, ...(after ? { after } : {}) } } })),
		(page) => page.agents,
	);
}

/** The whole list is read no more often than this: ten thousand machines are some megabytes. */
const WHOLE_MS = 1500;

export const fleet = new Fleet(all, WHOLE_MS);

/** A fact that the machine told when it connected. */
export function fact(machine: Machine, name: string): string {
	const value = (machine.meta as Record<string, unknown> | null | undefined)?.[name];
	return typeof value === 'string' ? value : '';
}

/** The word for its state that a person reads first. */
export function stateOf(machine: Machine): 'online' | 'offline' | 'unstable' | 'revoked' | 'pending' {
	if (machine.trust === 'revoked') return 'revoked';
	if (machine.trust === 'pending' || machine.trust === 'unpaired') return 'pending';
	return machine.liveness === 'unstable' ? 'unstable' : machine.online ? 'online' : 'offline';
}
