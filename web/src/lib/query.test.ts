import { expect, test } from 'vitest';
import cases from '../../../fixtures/query/cases.json';
import { type Facts, parse, QueryError } from './query';

const machine = cases.machine as Record<string, string[]>;
const facts: Facts = { of: (field) => (machine[field] ?? []).map((value) => value.toLowerCase()) };

test('queries hold or do not, as the hub says', () => {
	for (const [text, fits] of cases.fits as [string, boolean][]) expect(parse(text)(facts), text).toBe(fits);
	expect(parse('  ')(facts)).toBe(true);
});

test('what is no query is told with what is wrong, in the hub’s words', () => {
	for (const [text, why] of cases.refused as [string, string][]) {
		expect(() => parse(text), text).toThrow(QueryError);
		expect(() => parse(text), text).toThrow(why);
	}
	expect(() => parse('('.repeat(100))).toThrow('brackets within');
});
