import { expect, test } from 'vitest';
import { crumbs, join } from './paths';

test('paths are put together as the machine writes them', () => {
	expect(join('/', 'etc', false)).toBe('/etc');
	expect(join('/etc', 'hosts', false)).toBe('/etc/hosts');
	expect(join('C:\\', 'Users', true)).toBe('C:\\Users');
	expect(join('C:\\Users', 'a', true)).toBe('C:\\Users\\a');
});

test('every folder on the way has its path', () => {
	expect(crumbs('/var/log', false).map(({ path }) => path)).toEqual(['/', '/var', '/var/log']);
	expect(crumbs('C:\\Users\\a', true).map(({ path }) => path)).toEqual(['C:\\', 'C:\\Users', 'C:\\Users\\a']);
	expect(crumbs('/', false)).toEqual([{ name: '/', path: '/' }]);
});
