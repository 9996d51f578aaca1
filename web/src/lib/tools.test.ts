import { expect, test } from 'vitest';
import { read, type Schema } from './tools';

test('what is written becomes what the tool wants', () => {
	for (const [schema, written, value] of [
		[{ type: 'string' }, 'x', 'x'],
		[{ type: 'string' }, '', undefined],
		[{ type: 'integer' }, '3', 3],
		[{ type: ['integer', 'null'] }, '3', 3],
		[{ type: 'number' }, '2.5', 2.5],
		[{ type: 'boolean' }, true, true],
		[{ type: 'boolean' }, false, undefined],
		[{ enum: ['a', 1] }, '1', 1],
		[{ type: 'array', items: { type: 'string' } }, 'a\n\n b ', ['a', 'b']],
		[{ type: 'object' }, '{"a":1}', { a: 1 }],
	] as [Schema, string | boolean, unknown][]) {
		expect(read('it', schema, written)).toEqual(value);
	}
	expect(() => read('count', { type: 'integer' }, '1.5')).toThrow('count must be a whole number');
	expect(() => read('it', { type: 'object' }, '{')).toThrow('it must be JSON');
});
