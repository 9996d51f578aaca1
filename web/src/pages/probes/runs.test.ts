import { expect, test } from 'vitest';
import { compare, dataOf, worstFirst } from './runs';

test('what a probe gave is held against the one before, of the same and nothing else', () => {
	expect(compare('disk', 'a', { used: 1 }).had).toBe(false);
	expect(compare('disk', 'b', { used: 2 }).had).toBe(false);
	expect(compare('disk', 'a', { used: 1 })).toMatchObject({ had: true, isSame: true });
	expect(compare('disk', 'a', { used: 3 })).toEqual({ had: true, isSame: false, was: { used: 1 } });
	expect(compare('load', 'a', { used: 3 }).had).toBe(false);
});

test('a run is what each probe gave, or why it gave nothing', () => {
	const probes = { a: { status: 'ok', data: 1 }, b: { status: 'error', error: 'away' }, c: { status: 'skipped', reason: 'no' }, d: { status: 'timeout' } };
	expect(dataOf({ probes })).toEqual({ a: 1, b: 'away', c: 'no', d: 'timeout' });
});

test('the worst findings stand first', () => {
	const found = worstFirst([{ severity: 'info' }, { severity: 'critical' }, { severity: 'warning' }]);
	expect(found.map(({ severity }) => severity)).toEqual(['critical', 'warning', 'info']);
});
