import { expect, test } from 'vitest';
import { type Facts, parse, QueryError } from './query';

const facts: Facts = {
	of: (key) =>
		({ id: ['pc-1'], tag: ['lab', 'rack:3'], os: ['linux'], health: ['warn'], state: ['online'] })[key as 'id'] ?? [],
	text: 'pc-1 workbench lab rack:3 linux 0.1.0',
};

test('queries hold or do not', () => {
	for (const [text, holds] of [
		['', true],
		['pc', true],
		['workbench lab', true],
		['tag:lab', true],
		['TAG:LAB', true],
		['tag:la', false],
		['tag:la*', true],
		['tag:"rack:3"', true],
		['tag:rack:3', true],
		['tag:lab AND NOT os:windows', true],
		['tag:lab -os:linux', false],
		['NOT tag:lab', false],
		['os:windows OR health:warn', true],
		['os:windows OR health:warn AND state:offline', false],
		['(os:windows OR health:warn) state:online', true],
		['-(os:windows OR health:crit)', true],
		['NOT NOT tag:lab', true],
		['b*ch', true],
		['version:*', false],
	] as const) {
		expect(parse(text)(facts), text).toBe(holds);
	}
});

test('what is no query is told with what is wrong', () => {
	for (const [text, why] of [
		['(a', 'not closed'],
		['a)', 'not opened'],
		['a AND', 'missing at the end'],
		['OR a', 'missing before OR'],
		['colour:red', 'no key “colour”'],
		['tag:"lab', 'quote is not closed'],
	] as const) {
		expect(() => parse(text), text).toThrow(QueryError);
		expect(() => parse(text), text).toThrow(why);
	}
});
