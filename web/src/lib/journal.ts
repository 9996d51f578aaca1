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
	decision?: string;
	rule?: string;
	approval?: string;
	outcome?: string;
	duration_ms?: number;
	detail?: Record<string, unknown>;
}

export interface JournalPage {
	records: JournalRecord[];
	next?: number;
}

export interface JournalFilter {
	agent?: string;
	tool?: string;
	kind?: string;
}

async function after(seq: number, limit: number, filter: JournalFilter = {}): Promise<JournalPage> {
	const query = { limit, ...(seq > 0 ? { after: seq } : {}), ...filter };
	const page = await ask(api.GET('/api/journal', { params: { query } }));
	return page as unknown as JournalPage;
}

/** The `seq` of the newest record, found by halving: the door reads forward only. */
async function newest(): Promise<number> {
	const isThere = async (seq: number) => (await after(seq, 1)).records.length > 0;
	let low = 0;
	let high = 1024;
	while (await isThere(high)) [low, high] = [high, high * 4];
	while (low < high) {
		const middle = Math.floor((low + high) / 2);
		if (await isThere(middle)) low = middle + 1;
		else high = middle;
	}
	return low;
}

/** The newest records, newest first, and before which one there are more. */
export async function latest(limit: number, before?: number): Promise<JournalRecord[]> {
	const end = before === undefined ? await newest() : before - 1;
	const page = await after(Math.max(0, end - limit), limit);
	return page.records.filter((record) => record.seq <= end).reverse();
}

/** Whether a record says that somebody was refused. */
export function isRefusal(record: JournalRecord): boolean {
	return record.decision === 'denied' || record.decision === 'blocked';
}

/** What a record says, in one line. */
export function told(record: JournalRecord): string {
	const what = typeof record.detail?.what === 'string' ? record.detail.what : undefined;
	if (record.tool) return `${record.tool}${record.target ? ` on ${record.target}` : ''}`;
	return [what ?? record.kind, record.target].filter(Boolean).join(' · ');
}
