// The hub's HTTP API. Types come from its OpenAPI document (`npm run types`).

import createClient, { type Middleware } from 'openapi-fetch';
import type { components, paths } from './schema';

export type Schemas = components['schemas'];

/** What the hub answered instead of what was asked for, or why it could not be asked. */
export class Failure extends Error {
	constructor(
		readonly status: number,
		readonly code: string,
		message: string,
		readonly hint?: string,
		readonly requestId?: string,
	) {
		super(message);
	}

	/** Whether nobody answered at all. */
	get isAway(): boolean {
		return this.status === 0;
	}
}

let token: string | undefined;
let onSignedOut: () => void = () => {};

/** Requests carry this token from now on; without one, the browser's own session counts. */
export function useToken(value: string | undefined): void {
	token = value;
}

/** Called when the hub no longer knows who asks. */
export function whenSignedOut(then: () => void): void {
	onSignedOut = then;
}

const credential: Middleware = {
	onRequest({ request }) {
		if (token) request.headers.set('authorization', `Bearer ${token}`);
		return request;
	},
};

export const api = createClient<paths>({ baseUrl: globalThis.location?.origin ?? '' });
api.use(credential);

type Answer<T> = { data?: T; error?: unknown; response: Response };

/** What was asked for. Everything else is thrown as a [`Failure`]. */
export async function ask<T>(asking: Promise<Answer<T>>): Promise<T> {
	let answer: Answer<T>;
	try {
		answer = await asking;
	} catch (why) {
		if (why instanceof DOMException && why.name === 'AbortError') throw why;
		throw new Failure(0, 'away', 'the hub does not answer', 'check that it is running; this page tries again by itself');
	}
	if (answer.response.ok) return answer.data as T;
	const failure = failureOf(answer.response.status, answer.error);
	if (failure.status === 401) onSignedOut();
	throw failure;
}

/** A request to a door that the document does not describe yet, or that is named at run time. */
export async function send<T>(method: string, path: string, body?: unknown): Promise<T> {
	const headers: Record<string, string> = { accept: 'application/json' };
	if (token) headers.authorization = `Bearer ${token}`;
	if (body !== undefined) headers['content-type'] = 'application/json';
	const asking = fetch(path, { method, headers, body: body === undefined ? undefined : JSON.stringify(body) });
	return ask<T>(
		asking.then(async (response) => {
			const text = await response.text();
			const parsed: unknown = text === '' ? undefined : parse(text);
			return response.ok ? { data: parsed as T, response } : { error: parsed, response };
		}),
	);
}

/** What a door answers with as a file. */
export async function download(path: string, { method = 'GET', body }: { method?: string; body?: unknown } = {}): Promise<Blob> {
	const headers: Record<string, string> = token ? { authorization: `Bearer ${token}` } : {};
	if (body !== undefined) headers['content-type'] = 'application/json';
	return ask<Blob>(
		fetch(path, { method, headers, body: body === undefined ? undefined : JSON.stringify(body) }).then(async (response) =>
			response.ok ? { data: await response.blob(), response } : { error: parse(await response.text()), response },
		),
	);
}

/** Gives a door a file. */
export async function upload(path: string, file: Blob): Promise<unknown> {
	const headers: Record<string, string> = token ? { authorization: `Bearer ${token}` } : {};
	return ask<unknown>(
		fetch(path, { method: 'PUT', headers, body: file }).then(async (response) => {
			const parsed = parse(await response.text());
			return response.ok ? { data: parsed, response } : { error: parsed, response };
		}),
	);
}

function parse(text: string): unknown {
	try {
		return JSON.parse(text);
	} catch {
		return text;
	}
}

function failureOf(status: number, body: unknown): Failure {
	const error = (body as { error?: unknown } | undefined)?.error;
	if (typeof error === 'string') return new Failure(status, 'error', error);
	const detail = error as Partial<Record<'code' | 'message' | 'hint' | 'request_id', string>> | undefined;
	const message = detail?.message ?? `the hub answered with status ${status}`;
	return new Failure(status, detail?.code ?? 'error', message, detail?.hint, detail?.request_id);
}

/** All pages of a list. */
export async function pages<Page extends { next?: string | number | null }, Item>(
	page: (after: Page['next']) => Promise<Page>,
	items: (page: Page) => Item[],
	most = 100,
): Promise<Item[]> {
	const all: Item[] = [];
	let after: Page['next'] = undefined;
	for (let i = 0; i < most; i += 1) {
		const one = await page(after);
		all.push(...items(one));
		if (one.next === undefined || one.next === null) break;
		after = one.next;
	}
	return all;
}
