// What is different from the last time the same caller asked for the same of the same machine.

import { shown } from '$lib/text';

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
