// One stream for all tabs of a browser: six connections to a host are all that it has. Tabs with different credentials
// have a stream each, because each sees its own.

import { type Health, type LiveEvent, Stream } from './events';

export type ToWorker = { say: 'open'; token?: string } | { say: 'close' };
export type FromWorker = { say: 'event'; event: LiveEvent } | { say: 'state'; health: Health; heardAt: number };

class Shared {
	readonly ports = new Set<MessagePort>();
	last: FromWorker = { say: 'state', health: 'connecting', heardAt: 0 };
	readonly stream: Stream;

	constructor(token: string | undefined) {
		this.stream = new Stream(token, {
			event: (event) => this.tell({ say: 'event', event }),
			state: (health, heardAt) => this.tell((this.last = { say: 'state', health, heardAt })),
		});
	}

	tell(message: FromWorker) {
		for (const port of this.ports) port.postMessage(message);
	}
}

const streams = new Map<string, Shared>();

function leave(port: MessagePort) {
	for (const [key, shared] of streams) {
		if (!shared.ports.delete(port) || shared.ports.size > 0) continue;
		shared.stream.stop();
		streams.delete(key);
	}
}

function open(port: MessagePort, token: string | undefined) {
	leave(port);
	const key = token ?? '';
	const shared = streams.get(key) ?? new Shared(token);
	streams.set(key, shared);
	shared.ports.add(port);
	port.postMessage(shared.last);
}

self.addEventListener('connect', (event) => {
	const port = (event as MessageEvent).ports[0];
	if (!port) return;
	port.onmessage = ({ data }: MessageEvent<ToWorker>) => {
		if (data.say === 'open') open(port, data.token);
		else leave(port);
	};
});
