import type { Page } from '$lib/page';

export default {
	paths: ['/calls'],
	title: 'Calls',
	view: () => import('./Calls.svelte'),
} satisfies Page;
