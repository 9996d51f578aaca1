import type { Page } from '$lib/page';

export default {
	paths: ['/journal/verify'],
	title: 'Journal',
	view: () => import('./Verify.svelte'),
} satisfies Page;
