// Something that was read from the hub and stays true: read again when an event says that it changed.

import { untrack } from 'svelte';
import { Failure } from './api/client';
import type { LiveEvent } from './live/events';
import { live } from './live/live.svelte';

export interface Watch {
	/** Kinds of events after which it may be different. */
	kinds?: string[];
	/** Whether one of them is about it; all of them, if absent. */
	when?: (event: LiveEvent) => boolean;
	/** It is read again no sooner than so many milliseconds after the last time, however much happens. */
	everyMs?: number;
}

/** Events that come in a burst lead to one more reading, not to one each. */
const BURST_MS = 120;

export class Resource<T> {
	data = $state.raw<T>();
	error = $state.raw<Failure>();
	isLoading = $state(true);
	#run = 0;
	#again: ReturnType<typeof setTimeout> | undefined;
	#lastAt = 0;

	constructor(
		private readonly load: () => Promise<T>,
		private readonly everyMs = BURST_MS,
	) {}

	/** Reads it anew. What was read before stays on the screen until then. */
	async reload(): Promise<void> {
		const run = ++this.#run;
		this.#lastAt = performance.now();
		this.isLoading = true;
		try {
			const data = await this.load();
			if (run !== this.#run) return;
			this.data = data;
			this.error = undefined;
		} catch (why) {
			if (run !== this.#run) return;
			this.error = asFailure(why);
		}
		this.isLoading = false;
	}

	/** Reads it anew soon: at once after a quiet time, together with others in a busy one. */
	reloadSoon(): void {
		if (this.#again !== undefined) return;
		const wait = Math.max(0, this.everyMs - (performance.now() - this.#lastAt));
		this.#again = setTimeout(() => {
			this.#again = undefined;
			void this.reload();
		}, wait);
	}

	/** Forgets what was read, and what is under way. */
	forget(): void {
		this.#run += 1;
		clearTimeout(this.#again);
		this.#again = undefined;
		this.data = undefined;
		this.error = undefined;
	}

	stop(): void {
		this.#run += 1;
		clearTimeout(this.#again);
		this.#again = undefined;
	}
}

export function asFailure(why: unknown): Failure {
	if (why instanceof Failure) return why;
	return new Failure(-1, 'page', why instanceof Error ? why.message : String(why), 'reload the page');
}

/** Reads something for as long as a component lives; `key` says what, and another one reads anew. */
export function resource<T>(load: () => Promise<T>, watch: Watch = {}, key: () => unknown = () => undefined): Resource<T> {
	const it = new Resource(load, watch.everyMs);
	let last: unknown;
	let isFirst = true;
	$effect(() => {
		const present = key();
		untrack(() => {
			if (!isFirst && present !== last) it.forget();
			isFirst = false;
			last = present;
			void it.reload();
		});
		return () => it.stop();
	});
	$effect(() =>
		live.listen((event) => {
			const isAbout = event.kind === 'reset' || (watch.kinds?.includes(event.kind) && (watch.when?.(event) ?? true));
			if (isAbout) it.reloadSoon();
		}),
	);
	return it;
}
