// What the list can show of a machine.

import { fact, type Machine, stateOf } from '$lib/fleet.svelte';
import type { Facts, Field } from '$lib/query';

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

/** What a query sees of a machine, as the hub's sees it. */
export function factsOf(machine: Machine): Facts {
	const lower = (...texts: (string | null | undefined)[]) => texts.filter((text) => text).map((text) => (text ?? '').toLowerCase());
	const values: Record<Field, string[]> = {
		id: lower(machine.id),
		name: lower(machine.name, fact(machine, 'hostname')),
		tag: lower(...machine.tags),
		health: [machine.health],
		protocol: [machine.protocol],
		version: lower(fact(machine, 'version')),
		os: [systemOf(fact(machine, 'os'))],
		state: [machine.liveness],
		trust: [machine.trust],
		online: [String(machine.online)],
	};
	return { of: (field) => values[field] };
}

function systemOf(os: string): string {
	return /^(linux|windows|macos)\b/i.exec(os)?.[1]?.toLowerCase() ?? 'other';
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
