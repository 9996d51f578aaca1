import { expect, test } from 'vitest';
import type { Page } from './page';
import { find } from './router.svelte';

const page = (title: string, ...paths: `/${string}`[]): Page => ({
	title,
	paths,
	view: () => Promise.reject(new Error('not shown')),
});
const pages = [page('home', '/'), page('machines', '/machines'), page('machine', '/machines/:id', '/machines/:id/:part')];

test('an address finds its page and its names', () => {
	for (const [address, title, params] of [
		['/', 'home', {}],
		['/machines', 'machines', {}],
		['/machines/', 'machines', {}],
		['/machines/sonde%3Aa%2Fb', 'machine', { id: 'sonde:a/b' }],
		['/machines/pc/logs', 'machine', { id: 'pc', part: 'logs' }],
	] as const) {
		const found = find(address, pages);
		expect([found?.page.title, found?.params]).toEqual([title, params]);
	}
	for (const address of ['/nothing', '/machines/a/b/c', '/machines/%zz']) expect(find(address, pages)).toBeUndefined();
});
