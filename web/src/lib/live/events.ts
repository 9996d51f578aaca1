// Server-sent events over `fetch`, because a token can only travel in a header: what `EventSource` does, with the time of
// the last sign of life.

export interface LiveEvent {
	id: string;
	kind: string;
	data: Record<string, unknown>;
}

/** How the stream is doing. */
export type Health = 'connecting' | 'live' | 'down' | 'refused';

export interface Sink {
	event(event: LiveEvent): void;
	/** Something was heard, or the state changed. */
	state(health: Health, heardAt: number): void;
}

/** Takes pieces of a stream and gives back whole events; a comment or a bare id is `undefined` data. */
export class Parser {
	#rest = '';
	#id = '';
	#kind = '';
	#data: string[] = [];

	/** The last id, which is where to go on. */
	get cursor(): string {
		return this.#id;
	}

	push(piece: string): LiveEvent[] {
		const lines = (this.#rest + piece).split(/\r\n|\n|\r/);
		this.#rest = lines.pop() ?? '';
		const events: LiveEvent[] = [];
		for (const line of lines) {
			if (line === '') this.#dispatch(events);
			else this.#field(line);
		}
		return events;
	}

	#field(line: string) {
		const colon = line.indexOf(':');
		const name = colon < 0 ? line : line.slice(0, colon);
		const value = colon < 0 ? '' : line.slice(colon + 1).replace(/^ /, '');
		if (name === 'id') this.#id = value;
		else if (name === 'event') this.#kind = value;
		else if (name === 'data') this.#data.push(value);
	}

	#dispatch(events: LiveEvent[]) {
		if (this.#data.length > 0) {
			try {
				const data = JSON.parse(this.#data.join('\n')) as Record<string, unknown>;
				events.push({ id: this.#id, kind: this.#kind || 'message', data });
			} catch {
				// Not for us: the hub sends JSON only.
			}
		}
		this.#kind = '';
		this.#data = [];
	}
}

/** The hub says something every 15 s. */
const SILENT_MS = 40_000;
const FIRST_PAUSE_MS = 300;
const LONGEST_PAUSE_MS = 10_000;

/** Reads the stream until it is stopped: comes back with its cursor whenever it breaks. */
export class Stream {
	#stopped = new AbortController();
	#cursor = '';
	#heardAt = 0;

	constructor(
		private readonly token: string | undefined,
		private readonly sink: Sink,
	) {
		void this.#run();
	}

	stop(): void {
		this.#stopped.abort();
	}

	async #run() {
		let pause = FIRST_PAUSE_MS;
		while (!this.#stopped.signal.aborted) {
			const before = this.#heardAt;
			this.#tell('connecting');
			const refused = await this.#read().catch(() => false);
			if (this.#stopped.signal.aborted) return;
			if (refused) return this.#tell('refused');
			this.#tell('down');
			pause = this.#heardAt > before ? FIRST_PAUSE_MS : Math.min(pause * 2, LONGEST_PAUSE_MS);
			await rest(pause * (0.75 + Math.random() / 2), this.#stopped.signal);
		}
	}

	/** One connection. True means that the hub does not know who asks. */
	async #read(): Promise<boolean> {
		const connection = new AbortController();
		const stop = () => connection.abort();
		this.#stopped.signal.addEventListener('abort', stop);
		let watch = setTimeout(stop, SILENT_MS);
		try {
			const headers: Record<string, string> = { accept: 'text/event-stream' };
			if (this.token) headers.authorization = `Bearer ${this.token}`;
			const after = this.#cursor === '' ? '' : `?after=${encodeURIComponent(this.#cursor)}`;
			const response = await fetch(`/api/events${after}`, { headers, signal: connection.signal, cache: 'no-store' });
			if (response.status === 401) return true;
			if (!response.ok || !response.body) return false;
			const parser = new Parser();
			const reader = response.body.pipeThrough(new TextDecoderStream()).getReader();
			for (;;) {
				const { done, value } = await reader.read();
				if (done) return false;
				clearTimeout(watch);
				watch = setTimeout(stop, SILENT_MS);
				const events = parser.push(value);
				this.#cursor = parser.cursor || this.#cursor;
				this.#heardAt = Date.now();
				this.#tell('live');
				for (const event of events) this.sink.event(event);
			}
		} finally {
			clearTimeout(watch);
			this.#stopped.signal.removeEventListener('abort', stop);
			connection.abort();
		}
	}

	#tell(health: Health) {
		this.sink.state(health, this.#heardAt);
	}
}

function rest(ms: number, stopped: AbortSignal): Promise<void> {
	return new Promise((resolve) => {
		const timer = setTimeout(resolve, ms);
		stopped.addEventListener('abort', () => {
			clearTimeout(timer);
			resolve();
		});
	});
}
