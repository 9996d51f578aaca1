// Calls through the gate, as the page makes them.

import { api, ask, type Failure, type Schemas } from './api/client';
import { asFailure } from './resource.svelte';

/** How a call went, as far as it is known. */
export type Outcome =
	| { state: 'running' }
	| { state: 'waiting'; callId: string; approval: string; expires: string }
	| { state: 'done'; callId: string; result: unknown; ms?: number; note?: string }
	| { state: 'failed'; callId?: string; code: string; message: string; ms?: number }
	| { state: 'refused'; failure: Failure };

export type Args = Record<string, unknown>;

/** Calls a tool of a machine and says how it went; never throws. */
export async function call(id: string, tool: string, args: Args = {}, timeoutS?: number): Promise<Outcome> {
	try {
		const body = { tool, args, ...(timeoutS ? { timeout_s: timeoutS } : {}) };
		const reply: unknown = await ask(
			api.POST('/api/agents/{id}/call', { params: { path: { id } }, body: body as Schemas['CallRequest'] }),
		);
		return outcomeOf(reply as Schemas['CallReply'] | Schemas['CallPending']);
	} catch (why) {
		return { state: 'refused', failure: asFailure(why) };
	}
}

export function outcomeOf(reply: Schemas['CallReply'] | Schemas['CallPending']): Outcome {
	if ('approval' in reply) {
		return { state: 'waiting', callId: reply.call_id, approval: reply.approval.id, expires: reply.approval.expires_at };
	}
	return ended(reply.call_id, reply);
}

function ended(callId: string, reply: Partial<Schemas['CallReply']>): Outcome {
	const ms = reply.duration_ms ?? undefined;
	if (reply.error) return { state: 'failed', callId, code: reply.error.code, message: reply.error.message, ms };
	return { state: 'done', callId, result: reply.result, ms, note: reply.note ?? undefined };
}

/** Waits for the end of a call that waits for a person. */
export async function waitFor(callId: string, isWanted: () => boolean): Promise<Outcome | undefined> {
	while (isWanted()) {
		try {
			const query = { wait_s: 25 };
			const status = await ask(api.GET('/api/calls/{id}', { params: { path: { id: callId }, query } }));
			if (status.state !== 'done') continue;
			if (status.error || status.outcome === 'ok') return ended(callId, status as Partial<Schemas['CallReply']>);
			return { state: 'failed', callId, code: status.outcome ?? 'ended', message: OUTCOMES[status.outcome ?? ''] ?? '' };
		} catch (why) {
			const failure = asFailure(why);
			if (!failure.isAway) return { state: 'refused', failure };
			await new Promise((resolve) => setTimeout(resolve, 2000));
		}
	}
	return undefined;
}

const OUTCOMES: Record<string, string> = {
	rejected: 'A person said no.',
	expired: 'Nobody said yes in time.',
	cancelled: 'It was taken back before it ran.',
};

/** The result of a look at a machine, for views that only want that. */
export async function look<T>(id: string, tool: string, args: Args = {}): Promise<T> {
	const outcome = await call(id, tool, args);
	if (outcome.state === 'done') return outcome.result as T;
	if (outcome.state === 'refused') throw outcome.failure;
	if (outcome.state === 'failed') throw new Error(`${outcome.code}: ${outcome.message}`);
	throw new Error('this needs a person’s yes; see Approvals');
}

/** Does something for each, so many at a time, and tells of each as it ends. */
export async function forEach<T>(items: T[], atOnce: number, work: (item: T) => Promise<void>): Promise<void> {
	const rest = [...items];
	const worker = async () => {
		for (let item = rest.shift(); item !== undefined; item = rest.shift()) await work(item);
	};
	await Promise.all(Array.from({ length: Math.min(atOnce, items.length) }, worker));
}
