import { expect, test } from 'vitest';
import type { JournalRecord } from '$lib/journal';
import { changes, pick } from './difference';

test('arguments that differ are named with both values', () => {
	expect(changes({ command: 'apt upgrade', timeout_s: 5 }, { command: 'apt upgrade -y', shell: 'sh' })).toEqual([
		{ name: 'command', kind: 'changed', was: 'apt upgrade', now: 'apt upgrade -y' },
		{ name: 'timeout_s', kind: 'gone', was: '5', now: '' },
		{ name: 'shell', kind: 'new', was: '', now: 'sh' },
	]);
	expect(changes({ list: ['a'] }, { list: ['a'] })).toEqual([]);
});

test('the last time is another call of the same caller, with its outcome', () => {
	const record = (seq: number, rest: Partial<JournalRecord>) =>
		({ hub_id: '', seq, at: `t${seq}`, kind: 'call', prev: '', hash: '', ...rest }) as JournalRecord;
	const records = [
		record(5, { who: 'claude', call_id: 'c', args: { a: 3 } }),
		record(4, { who: 'ben', call_id: 'b', args: { a: 2 } }),
		record(3, { who: 'claude', call_id: 'a', outcome: 'ok' }),
		record(2, { who: 'claude', call_id: 'a', args: { a: 1 } }),
	];
	expect(pick(records, 'claude', 'c')).toEqual({ at: 't2', args: { a: 1 }, outcome: 'ok', call: 'a' });
	expect(pick(records, 'claude', 'a')?.call).toBe('c');
	expect(pick(records, 'nobody', 'c')).toBeNull();
});
