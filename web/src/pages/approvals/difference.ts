// What is different from the last time the same caller asked for the same of the same machine.

import { before, type JournalRecord } from '$lib/journal';
import { shown } from '$lib/text';

export interface Last {
	at: string;
	args: unknown;
	outcome?: string;
	call: string;
}

/** So many records of this tool and machine are looked at. */
const LOOKED_AT = 300;

/** The last time, as the journal has it: without secrets. */
export async function lastTime(caller: string, tool: string, target: string, call: string): Promise<Last | null> {
	const { records } = await before(undefined, LOOKED_AT, { agent: target, tool });
	return pick(records, caller, call);
}

/** The newest other call of a caller among records that are newest first. */
export function pick(records: JournalRecord[], caller: string, call: string): Last | null {
	const found = records.find((record) => record.who === caller && record.call_id && record.call_id !== call && record.args !== undefined);
	if (!found?.call_id) return null;
	const end = records.find((record) => record.call_id === found.call_id && record.outcome);
	return { at: found.at, args: found.args, outcome: end?.outcome, call: found.call_id };
}

export interface Change {
	name: string;
	kind: 'changed' | 'new' | 'gone';
	was: string;
	now: string;
}

/** The arguments that differ; none where all are the same. */
export function changes(was: unknown, now: unknown): Change[] {
	const [a, b] = [fields(was), fields(now)];
	const found: Change[] = [];
	for (const name of new Set([...a.keys(), ...b.keys()])) {
		const [before, after] = [a.get(name), b.get(name)];
		if (before === after) continue;
		const kind = before === undefined ? 'new' : after === undefined ? 'gone' : 'changed';
		found.push({ name, kind, was: before ?? '', now: after ?? '' });
	}
	return found;
}

function fields(args: unknown): Map<string, string> {
	if (typeof args !== 'object' || args === null || Array.isArray(args)) return new Map([['', shown(args)]]);
	return new Map(Object.entries(args).map(([name, value]) => [name, shown(value)]));
}
