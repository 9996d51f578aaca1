import { expect, test } from 'vitest';
import { compare, type Result, worstFirst } from './runs';

const result = (data: unknown): Result => ({ state: 'ok', summary: '', findings: [], data });

test('a run is held against the one before, of the same and nothing else', () => {
	expect(compare('disk', 'a', result({ used: 1 }))).toBeUndefined();
	expect(compare('disk', 'b', result({ used: 2 }))).toBeUndefined();
	expect(compare('disk', 'a', result({ used: 1 }))?.isSame).toBe(true);
	expect(compare('disk', 'a', result({ used: 3 }))).toEqual({ isSame: false, was: { used: 1 } });
	expect(compare('load', 'a', result({ used: 3 }))).toBeUndefined();
});

test('the worst findings stand first', () => {
	const found = worstFirst([{ severity: 'info' }, { severity: 'critical' }, { severity: 'warning' }]);
	expect(found.map(({ severity }) => severity)).toEqual(['critical', 'warning', 'info']);
});
