import { expect, test } from 'vitest';
import { Parser } from './events';

test('events come whole, however the stream is cut', () => {
	const text = ': begins\nid: a\n\nid: b\nevent: call\ndata: {"x":1}\n\n: still here\nid: c\n\nevent: reset\ndata: {}\n\n';
	for (let size = 1; size <= text.length; size += 1) {
		const parser = new Parser();
		const events = [];
		for (let at = 0; at < text.length; at += size) events.push(...parser.push(text.slice(at, at + size)));
		expect(events).toEqual([
			{ id: 'b', kind: 'call', data: { x: 1 } },
			{ id: 'c', kind: 'reset', data: {} },
		]);
		expect(parser.cursor).toBe('c');
	}
});

test('data over several lines is one text, and what is no JSON is left out', () => {
	const parser = new Parser();
	expect(parser.push('data: {"a":\ndata: 2}\n\ndata: oops\n\n')).toEqual([{ id: '', kind: 'message', data: { a: 2 } }]);
});
