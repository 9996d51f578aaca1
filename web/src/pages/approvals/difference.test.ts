import { expect, test } from 'vitest';
import { changes } from './difference';

test('arguments that differ are named with both values', () => {
	expect(changes({ command: 'apt upgrade', timeout_s: 5 }, { command: 'apt upgrade -y', shell: 'sh' })).toEqual([
		{ name: 'command', kind: 'changed', was: 'apt upgrade', now: 'apt upgrade -y' },
		{ name: 'timeout_s', kind: 'gone', was: '5', now: '' },
		{ name: 'shell', kind: 'new', was: '', now: 'sh' },
	]);
	expect(changes({ list: ['a'] }, { list: ['a'] })).toEqual([]);
	expect(changes('a', 'b')).toEqual([{ name: '', kind: 'changed', was: 'a', now: 'b' }]);
});
