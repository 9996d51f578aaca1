// What happens, for every view of this tab.

import { type Health, type LiveEvent, Stream } from './events';
import type { FromWorker, ToWorker } from './worker';

type Listener = (event: LiveEvent) => void;

/** Older than this, what is on the screen may not be how it is. */
const BEHIND_MS = 20_000;

class Live {
	health = $state<Health>('connecting');
	heardAt = $state(0);
	#listeners = new Set<Listener>();
	#close: () => void = () => {};
	#refused: () => void = () => {};

	/** Whether what is shown may be old at this moment. */
	isBehind(now: number): boolean {
		return this.health !== 'live' || now - this.heardAt > BEHIND_MS;
	}

	/** Reads the stream of this credential; `refused` is told when the hub no longer takes it. */
	open(token: string | undefined, refused: () => void): void {
		this.close();
		this.#refused = refused;
		this.#close = typeof SharedWorker === 'undefined' ? this.#alone(token) : this.#shared(token);
	}

	close(): void {
		this.#close();
		this.#close = () => {};
		this.health = 'connecting';
		this.heardAt = 0;
	}

	/** Calls back for each event until the given function is called. A `reset` means: read everything anew. */
	listen(listener: Listener): () => void {
		this.#listeners.add(listener);
		return () => this.#listeners.delete(listener);
	}

	#alone(token: string | undefined): () => void {
		const stream = new Stream(token, {
			event: (event) => this.#event(event),
			state: (health, heardAt) => this.#state(health, heardAt),
		});
		return () => stream.stop();
	}

	#shared(token: string | undefined): () => void {
		const worker = new SharedWorker(new URL('./worker.ts', import.meta.url), { type: 'module', name: 'convoke-live' });
		const say = (message: ToWorker) => worker.port.postMessage(message);
		worker.port.onmessage = ({ data }: MessageEvent<FromWorker>) => {
			if (data.say === 'event') this.#event(data.event);
			else this.#state(data.health, data.heardAt);
		};
		say({ say: 'open', token });
		const leave = () => say({ say: 'close' });
		// A tab that was put away and comes back joins again.
		const join = (event: PageTransitionEvent) => event.persisted && say({ say: 'open', token });
		addEventListener('pagehide', leave);
		addEventListener('pageshow', join);
		return () => {
			removeEventListener('pagehide', leave);
			removeEventListener('pageshow', join);
			leave();
			worker.port.close();
		};
	}

	#event(event: LiveEvent) {
		for (const listener of this.#listeners) listener(event);
	}

	#state(health: Health, heardAt: number) {
		this.health = health;
		this.heardAt = heardAt;
		if (health === 'refused') this.#refused();
	}
}

export const live = new Live();
