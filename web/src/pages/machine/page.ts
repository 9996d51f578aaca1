import type { Page } from '$lib/page';

export default {
	paths: ['/machines/:id', '/machines/:id/:tab'],
	title: 'Machines',
	view: () => import('./Machine.svelte'),
} satisfies Page;
