// What participants say to each other: content messages told apart by `k`, with the agents' envelope inside `app`.
// `null` is the same as absent, since the mesh's packing makes one of the other.

import { isRecord } from './grants';

export const MAX_CHAT = 500;
export const MAX_APP = 262_144;
const MAX_NAME = 120;
const MAX_VERSION = 64;
const MAX_URL = 512;
const MAX_LABEL = 80;

export type Payload = { k: string } & Record<string, unknown>;

/** Something that was said, read by the rules of its kind. */
export type Heard =
	| { kind: 'chat'; text: string; isDirect: boolean; rule?: string; sender?: string; part?: string }
	| { kind: 'view'; view: unknown }
	| { kind: 'act'; id?: string; from?: string; action: unknown }
	| { kind: 'acted'; id: string; ok: boolean; words: string }
	| { kind: 'data'; data: unknown }
	| { kind: 'pay'; url: string; label: string }
	| { kind: 'schema'; name: string; version: string; schema: unknown };

/** Reads what came; nothing, where it is of no kind that is shown here. Only the hub says what a rule posts. */
export function hear(payload: unknown, isFromHub: boolean): Heard | undefined {
	if (!isRecord(payload)) return undefined;
	const { k } = payload;
	const isDirect = payload.dm === true;
	if (k === 'chat') {
		const text = line(payload.text);
		if (!text) return undefined;
		const [rule, sender] = isFromHub ? [word(payload.rule), word(payload.sender)] : [];
		const part = isFromHub && typeof payload.part === 'number' && typeof payload.parts === 'number' ? `${payload.part}/${payload.parts}` : undefined;
		return { kind: 'chat', text, isDirect, rule, sender, part };
	}
	if (k === 'app') return envelope(payload.data);
	if (k === 'pay') {
		const url = word(payload.url);
		return url ? { kind: 'pay', url: cut(url, MAX_URL), label: cut(word(payload.label) ?? '', MAX_LABEL) } : undefined;
	}
	if (k === 'schema') {
		const [name, version] = [line(payload.name), line(payload.version)];
		if (!name || !version || payload.schema === undefined || size(payload.schema) > MAX_APP) return undefined;
		return { kind: 'schema', name: cut(name, MAX_NAME), version: cut(version, MAX_VERSION), schema: payload.schema };
	}
	return undefined;
}

/** What the rule of grants calls it: the agents' envelopes by their own names. */
export function kindOf(payload: unknown): string {
	if (!isRecord(payload) || typeof payload.k !== 'string') return '';
	const inner = payload.k === 'app' && isRecord(payload.data) ? payload.data.__kib_agent : undefined;
	return inner === 'act' || inner === 'view' ? inner : payload.k;
}

function envelope(data: unknown): Heard | undefined {
	if (data === undefined || data === null || size(data) > MAX_APP) return undefined;
	const word = isRecord(data) ? data.__kib_agent : undefined;
	if (!isRecord(data) || typeof word !== 'string') return { kind: 'data', data };
	if (word === 'chat') {
		const text = line(data.text);
		return text ? { kind: 'chat', text, isDirect: false } : undefined;
	}
	if (word === 'view') return { kind: 'view', view: data.view ?? null };
	const id = typeof data.id === 'string' || typeof data.id === 'number' ? String(data.id) : undefined;
	if (word === 'act') return { kind: 'act', id, from: typeof data.from === 'string' ? data.from : undefined, action: data.action ?? null };
	if (word === 'acted' && id !== undefined) {
		const answer = data.ok === true ? data.result : data.error;
		const words = typeof answer === 'string' ? answer : answer === undefined || answer === null ? '' : JSON.stringify(answer);
		return { kind: 'acted', id, ok: data.ok === true, words };
	}
	return { kind: 'data', data };
}

function line(value: unknown): string {
	return typeof value === 'string' ? cut(value.trim(), MAX_CHAT) : '';
}

function word(value: unknown): string | undefined {
	return typeof value === 'string' && value !== '' ? value : undefined;
}

/** The first so many characters. */
export function cut(text: string, most: number): string {
	return text.length <= most ? text : [...text].slice(0, most).join('');
}

/** How large it is as JSON. */
export function size(value: unknown): number {
	try {
		return JSON.stringify(value)?.length ?? 0;
	} catch {
		return Number.POSITIVE_INFINITY;
	}
}
