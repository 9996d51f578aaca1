import { expect, test } from 'vitest';
import { relative, span } from './time';

test('spans are as long as a person says them', () => {
	expect([span(0.4), span(59), span(61), span(7200), span(3 * 86_400), span(40 * 86_400)]).toEqual([
		'0 s',
		'59 s',
		'1 min',
		'2 h',
		'3 d',
		undefined,
	]);
});

test('past and future are told apart', () => {
	expect(relative(0, 12_000)).toBe('12 s ago');
	expect(relative(180_000, 0)).toBe('in 3 min');
	expect(relative(500, 0)).toBe('now');
});
