// Rules in words, and who they mean.

import type { Schemas } from '$lib/api/client';

export type ConfirmRule = Schemas['ConfirmRule'];
export type DenyRule = Schemas['DenyRule'];

const LISTS = [
	['effects', 'effect'],
	['tools', 'tool'],
	['agents', 'machine'],
	['tags', 'tag'],
	['callers', 'caller'],
	['doors', 'door'],
] as const;

/** What a confirm rule asks for, in a sentence. */
export function told(rule: ConfirmRule): string {
	const parts = LISTS.flatMap(([key, word]) => {
		const list = rule[key];
		return list && list.length > 0 ? [`${word} ${list.join(' or ')}`] : [];
	});
	const who = rule.second_person ? 'a second person’s yes' : 'a person’s yes';
	return parts.length === 0 ? `every call needs ${who}` : `${parts.join(', ')}: needs ${who}`;
}

/** Whether a name fits one of the patterns; `*` stands for anything. */
export function fits(patterns: readonly string[] | null | undefined, name: string): boolean {
	if (!patterns) return true;
	return patterns.some((pattern) => {
		const parts = pattern.split(/\*+/).map((part) => part.replace(/[.*+?^${}()|[\]\\]/g, '\\$&'));
		return new RegExp(`^${parts.join('[^]*')}$`).test(name);
	});
}

export interface Principal {
	name: string;
	kind: 'user' | 'token' | 'assistant';
	role: Schemas['Role'];
	scopes: Schemas['Scopes'];
	owner?: string | null;
}

export const EFFECTS = ['observe', 'interact', 'manage'] as const;
export type Effect = (typeof EFFECTS)[number];

/** The doors that a principal can come through: a session is good on the page and in rooms, a token where its scopes say. */
function doorsOf({ kind, scopes }: Principal): readonly string[] {
	if (kind === 'user') return ['page', 'room'];
	return scopes.doors ?? ['http', 'mcp', 'cli', 'room'];
}

/** What a principal may do with calls of an effect: not at all, with a person's yes (sometimes), or freely. */
export function may(principal: Principal, effect: Effect, rules: ConfirmRule[]): 'no' | 'asks' | 'may ask' | 'yes' {
	if (principal.role === 'viewer' && effect !== 'observe') return 'no';
	if (principal.scopes.effects && !principal.scopes.effects.includes(effect)) return 'no';
	const doors = doorsOf(principal);
	const about = rules.filter(
		(rule) =>
			(!rule.effects || rule.effects.includes(effect)) &&
			fits(rule.callers, principal.name) &&
			(!rule.doors || rule.doors.some((door: string) => doors.includes(door))),
	);
	const isAlways = (rule: ConfirmRule) => !rule.tools && !rule.agents && !rule.tags && (!rule.doors || doors.every((door) => rule.doors?.some((one: string) => one === door)));
	if (about.some(isAlways)) return 'asks';
	return about.length > 0 ? 'may ask' : 'yes';
}
