// What the list can show of a machine.

import { fact, type Machine, stateOf } from '$lib/fleet.svelte';
import type { Facts } from '$lib/query';

export interface Column {
	key: string;
	title: string;
	/** Its share of the width. */
	width: string;
	text: (machine: Machine) => string;
	/** What it is ordered by, where the text would not do. */
	rank?: (machine: Machine) => number;
}

const SEVERITY = ['crit', 'warn', 'unknown', 'ok'];

export const COLUMNS: Column[] = [
	{ key: 'state', title: 'State', width: '7.5rem', text: stateOf },
	{
		key: 'health',
		title: 'Health',
		width: '7rem',
		text: (machine) => machine.health,
		rank: (machine) => SEVERITY.indexOf(machine.health),
	},
	{ key: 'host', title: 'Host', width: 'minmax(7rem, 1.2fr)', text: (machine) => fact(machine, 'hostname') },
	{ key: 'os', title: 'System', width: '6rem', text: (machine) => fact(machine, 'os') },
	{ key: 'version', title: 'Version', width: '6rem', text: (machine) => fact(machine, 'version') },
	{ key: 'tags', title: 'Tags', width: 'minmax(7rem, 1.2fr)', text: (machine) => machine.tags.join(' ') },
	{
		key: 'seen',
		title: 'Last seen',
		width: '8rem',
		text: (machine) => machine.last_seen ?? '',
		rank: (machine) => -Date.parse(machine.last_seen ?? '1970-01-01'),
	},
	{ key: 'protocol', title: 'Protocol', width: '6rem', text: (machine) => machine.protocol },
	{ key: 'trust', title: 'Trust', width: '6rem', text: (machine) => machine.trust },
];

export const USUAL = ['state', 'health', 'host', 'os', 'version', 'tags', 'seen'];

/** What a query sees of a machine. */
export function factsOf(machine: Machine): Facts {
	const lower = (text: string | null | undefined) => (text ? [text.toLowerCase()] : []);
	const host = fact(machine, 'hostname');
	const values: Record<string, () => string[]> = {
		id: () => lower(machine.id),
		name: () => [...lower(machine.id), ...lower(host)],
		host: () => lower(host),
		tag: () => machine.tags.map((tag) => tag.toLowerCase()),
		os: () => lower(fact(machine, 'os')),
		health: () => lower(machine.health),
		state: () => [stateOf(machine), ...(machine.remote_control === false ? ['paused'] : [])],
		trust: () => lower(machine.trust),
		protocol: () => lower(machine.protocol),
		version: () => lower(fact(machine, 'version')),
	};
	let text: string | undefined;
	return {
		of: (key) => values[key]?.(),
		get text() {
			text ??= [machine.id, host, ...machine.tags, fact(machine, 'os'), fact(machine, 'version'), machine.protocol]
				.join(' ')
				.toLowerCase();
			return text;
		},
	};
}

/** `-seen` is by the last column, the other way round. */
export function ordered(machines: Machine[], sort: string): Machine[] {
	const isReversed = sort.startsWith('-');
	const key = sort.replace(/^-/, '');
	const column = COLUMNS.find((column) => column.key === key);
	if (!column) return isReversed ? machines.toReversed() : machines;
	const { rank, text } = column;
	const sorted = rank
		? machines.toSorted((a, b) => rank(a) - rank(b))
		: machines.toSorted((a, b) => (text(a) < text(b) ? -1 : text(a) > text(b) ? 1 : 0));
	return isReversed ? sorted.reverse() : sorted;
}
