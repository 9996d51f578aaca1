// The journal, as the hub shows it.

import { api, ask } from './api/client';

export interface JournalRecord {
	hub_id: string;
	seq: number;
	at: string;
	kind: string;
	phase?: string;
	who?: string;
	door?: string;
	target?: string;
	tool?: string;
	call_id?: string;
	args?: unknown;
	args_digest?: string;
	decision?: string;
	rule?: string;
	approval?: string;
	outcome?: string;
	duration_ms?: number;
	detail?: Record<string, unknown>;
	prev: string;
	hash: string;
}

export interface JournalPage {
	records: JournalRecord[];
	/** Where the next page begins; absent on the last one. */
	next?: number | null;
}

export interface JournalFilter {
	agent?: string;
	tool?: string;
	kind?: string;
	call?: string;
	who?: string;
	decision?: string;
	since?: string;
	until?: string;
	/** Somewhere in the record. */
	text?: string;
}

export const DECISIONS = ['allowed', 'denied', 'blocked', 'pending', 'confirmed', 'rejected', 'expired'] as const;

export const KINDS = [
	'call',
	'approval',
	'policy',
	'trust',
	'enrol',
	'auth',
	'pairing',
	'grant',
	'token',
	'user',
	'hub',
	'refusal',
] as const;

/** Newest first, before a record. */
export async function before(seq: number | undefined, limit: number, filter: JournalFilter = {}): Promise<JournalPage> {
	const query = { limit, before: seq ?? Number.MAX_SAFE_INTEGER, ...present(filter) };
	return (await ask(api.GET('/api/journal', { params: { query } }))) as unknown as JournalPage;
}

/** The newest records, newest first. */
export async function latest(limit: number, filter: JournalFilter = {}): Promise<JournalRecord[]> {
	return (await before(undefined, limit, filter)).records;
}

/** Everything about one call, in order. */
export async function ofCall(call: string): Promise<JournalRecord[]> {
	const page = await ask(api.GET('/api/journal', { params: { query: { call, limit: 100 } } }));
	return (page as unknown as JournalPage).records;
}

function present(filter: JournalFilter): JournalFilter {
	return Object.fromEntries(Object.entries(filter).filter(([, value]) => value));
}

/** A filter as the part of an address. */
export function asQuery(filter: JournalFilter): string {
	return new URLSearchParams(present(filter) as Record<string, string>).toString();
}

/** Whether a record says that somebody was refused. */
export function isRefusal(record: JournalRecord): boolean {
	return record.decision === 'denied' || record.decision === 'blocked' || record.decision === 'rejected' || record.kind === 'refusal';
}

/** What a record is about, by its kind. */
const NOUNS: Record<string, string> = {
	approval: 'Approval',
	auth: '',
	enrol: 'Machine',
	grant: 'Grant',
	hub: 'Hub',
	pairing: 'Client',
	policy: 'Policy',
	refusal: 'Refused',
	token: 'Token',
	trust: 'Machine',
	user: 'User',
};
/** Where its record names what it is about. */
const NAMES = ['user', 'token', 'name', 'room', 'participant', 'identifier'];

/** What a record says, in one line. */
export function told(record: JournalRecord): string {
	if (record.tool) return `${record.tool}${record.target ? ` on ${record.target}` : ''}`;
	const text = (value: unknown) => (typeof value === 'string' && value !== '' ? value : undefined);
	const name = record.target ?? NAMES.map((key) => text(record.detail?.[key])).find((one) => one !== undefined) ?? record.rule ?? (record.kind === 'auth' ? record.who : undefined);
	const what = text(record.detail?.what) ?? (record.kind === 'auth' ? 'signed in' : undefined);
	const about = [NOUNS[record.kind] ?? record.kind, name].filter(Boolean).join(' ');
	return what ? `${about}: ${what}` : about;
}

/** The badge that a record ends with: what was decided, or how it went. */
export function verdictOf(record: JournalRecord): { word: string; kind: 'ok' | 'warn' | 'bad' | 'info' | '' } | undefined {
	if (record.phase === 'intent') return { word: 'begins', kind: 'info' };
	if (record.phase === 'late') return { word: 'late answer', kind: 'warn' };
	if (isRefusal(record)) return { word: record.decision ?? 'refused', kind: 'bad' };
	if (record.outcome) return record.outcome === 'ok' ? { word: 'ok', kind: 'ok' } : { word: record.outcome, kind: 'warn' };
	if (record.decision === 'pending') return { word: 'waits', kind: 'info' };
	if (record.decision === 'confirmed') return { word: 'approved', kind: 'ok' };
	if (record.decision === 'expired') return { word: 'expired', kind: 'warn' };
	return undefined;
}
