import { expect, test } from 'vitest';
import { fits, may, type Principal, told } from './rules';

const claude: Principal = { name: 'claude', kind: 'assistant', role: 'operator', scopes: { doors: ['mcp'] } };
const vera: Principal = { name: 'vera', kind: 'user', role: 'viewer', scopes: {} };
const mcp = { id: 'mcp-needs-a-person', effects: ['interact', 'manage'] as ('interact' | 'manage')[], doors: ['mcp' as const] };

test('rules are told in a sentence', () => {
	expect(told(mcp)).toBe('effect interact or manage, door mcp: needs a person’s yes');
	expect(told({ id: 'all', second_person: true })).toBe('every call needs a second person’s yes');
});

test('patterns fit whole names', () => {
	expect(fits(['night-*'], 'night-script')).toBe(true);
	expect(fits(['night'], 'night-script')).toBe(false);
	expect(fits(['a.c'], 'abc')).toBe(false);
	expect(fits(undefined, 'anything')).toBe(true);
});

test('who may do what follows from role, scopes and rules', () => {
	expect(may(claude, 'observe', [mcp])).toBe('yes');
	expect(may(claude, 'manage', [mcp])).toBe('asks');
	expect(may(claude, 'manage', [])).toBe('yes');
	expect(may({ ...claude, scopes: { doors: ['mcp'], effects: ['observe'] } }, 'manage', [mcp])).toBe('no');
	expect(may(vera, 'observe', [mcp])).toBe('yes');
	expect(may(vera, 'interact', [mcp])).toBe('no');
	const ben: Principal = { name: 'ben', kind: 'user', role: 'operator', scopes: {} };
	expect(may(ben, 'manage', [mcp])).toBe('yes');
	expect(may({ ...ben, kind: 'token' }, 'manage', [mcp])).toBe('may ask');
	expect(may(ben, 'manage', [{ id: 'x', tags: ['prod'] }])).toBe('may ask');
	expect(may(ben, 'manage', [{ id: 'x', callers: ['anna'] }])).toBe('yes');
});
