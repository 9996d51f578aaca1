// A room whose content goes through the hub: one WebSocket, JSON texts with a type `t`. The session's cookie makes a
// signed-in person an operator there.

import { isRecord } from './grants';
import type { Payload } from './content';
import { type Ending, type Fresh, pause, readLog, readRoster, readWaiting, type Sink, type StillThere, type Transport } from './transport';

/** The hub answers a `ping` at once; without a frame for so long the connection is dead. */
const PING_MS = 10_000;
const SILENT_MS = 25_000;

/** Close codes after which coming again would not help. */
const ENDINGS: Record<number, Ending> = {
	4400: 'broken',
	4401: 'unverified',
	4403: 'kicked',
	4404: 'removed',
	4409: 'replaced',
	4503: 'full',
};

export class Relay implements Transport {
	#socket: WebSocket | undefined;
	#tries = 0;
	#heardAt = 0;
	#again: ReturnType<typeof setTimeout> | undefined;
	#beat: ReturnType<typeof setInterval>;
	#isOver = false;
	#wasHeard = false;

	constructor(
		private readonly room: string,
		private readonly fresh: Fresh,
		private readonly sink: Sink,
		private readonly stillThere: StillThere,
	) {
		this.#connect();
		this.#beat = setInterval(() => this.#check(), PING_MS);
	}

	say(payload: Payload, reference: number, to?: string): void {
		const isSent = this.#send({ t: 'to', ...(to === undefined ? {} : { id: to }), ref: reference, payload });
		if (!isSent) this.sink.refused('away', 'the hub is away', reference);
	}

	moderate(op: string, more: Record<string, unknown> = {}): void {
		this.#send({ t: 'mod', op, ...more });
	}

	leave(): void {
		this.#send({ t: 'leave' });
		this.#end();
	}

	#send(frame: unknown): boolean {
		if (this.#socket?.readyState !== WebSocket.OPEN) return false;
		this.#socket.send(JSON.stringify(frame));
		return true;
	}

	#end() {
		this.#isOver = true;
		clearTimeout(this.#again);
		clearInterval(this.#beat);
		this.#socket?.close();
	}

	#connect() {
		const url = new URL(`/rooms/${encodeURIComponent(this.room)}/ws`, location.href);
		url.protocol = url.protocol.replace('http', 'ws');
		const socket = new WebSocket(url);
		this.#socket = socket;
		this.#wasHeard = false;
		this.#heardAt = Date.now();
		socket.onmessage = ({ data }) => {
			if (socket === this.#socket && typeof data === 'string') this.#on(data);
		};
		socket.onclose = ({ code }) => {
			if (socket === this.#socket) this.#closed(code);
		};
	}

	#check() {
		if (Date.now() - this.#heardAt > SILENT_MS) {
			// A close that nobody answers takes a minute: the next connection does not wait for it.
			const dead = this.#socket;
			this.#socket = undefined;
			dead?.close();
			if (dead) this.#closed(1006);
			return;
		}
		this.#send({ t: 'ping' });
	}

	#closed(code: number) {
		if (this.#isOver) return;
		const ending = ENDINGS[code];
		if (ending) {
			this.#end();
			this.sink.over(ending);
			return;
		}
		this.sink.away();
		const again = () => {
			if (this.#isOver) return;
			clearTimeout(this.#again);
			this.#again = setTimeout(() => this.#connect(), pause(this.#tries++));
		};
		if (this.#wasHeard) return again();
		void this.stillThere().then((why) => {
			if (this.#isOver) return;
			if (!why) return again();
			this.#end();
			this.sink.over(why);
		});
	}

	#on(text: string) {
		const frame = parse(text);
		if (!isRecord(frame)) return;
		this.#heardAt = Date.now();
		this.#wasHeard = true;
		switch (frame.t) {
			case 'hello':
				void this.#come();
				break;
			case 'id':
				this.#tries = 0;
				this.sink.joined(String(frame.id), String(frame.name), frame.kind === 'agent' ? 'agent' : 'human');
				break;
			case 'lobby':
				this.#lobby(String(frame.status));
				break;
			case 'roster': {
				const roster = readRoster(frame);
				if (roster) this.sink.roster(roster);
				break;
			}
			case 'from':
				this.#content(String(frame.id), frame.payload);
				break;
			case 'refused':
				this.sink.refused(String(frame.reason), String(frame.message ?? ''), typeof frame.ref === 'number' ? frame.ref : undefined);
				break;
			case 'host':
				this.sink.hosting(readWaiting(frame.waiting), isRecord(frame.grants) ? frame.grants : {});
				break;
			case 'log':
				this.sink.logged(readLog(frame.lines));
				break;
			case 'reset':
				this.sink.cleared();
				break;
			case 'kick':
				this.#end();
				this.sink.over('kicked');
				break;
			case 'error':
				this.#error(String(frame.code), String(frame.message ?? ''));
				break;
			default:
		}
	}

	async #come() {
		const socket = this.#socket;
		try {
			const announced = await this.fresh();
			if (socket === this.#socket) this.#send({ t: 'voice', on: true, ...announced });
		} catch {
			// Closed, it is tried anew.
			socket?.close();
		}
	}

	#lobby(status: string) {
		if (status === 'waiting') return this.sink.waiting();
		if (status !== 'denied' && status !== 'locked' && status !== 'unverified') return;
		this.#end();
		this.sink.over(status);
	}

	#content(from: string, payload: unknown) {
		const isFromHub = from === 'hub';
		if (isFromHub && isRecord(payload) && payload.k === 'caps') {
			if (isRecord(payload.grants)) this.sink.grants(payload.grants);
			return;
		}
		this.sink.content(from, payload, isFromHub);
	}

	#error(code: string, message: string) {
		if (code === 'rate') this.sink.refused(code, message);
		if (code === 'replaced' || code === 'removed' || code === 'full') {
			this.#end();
			this.sink.over(code, message);
		}
	}
}

function parse(text: string): unknown {
	try {
		return JSON.parse(text);
	} catch {
		return undefined;
	}
}
