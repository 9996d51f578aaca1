import type { Page } from '$lib/page';

export default {
	paths: ['/fleet'],
	title: 'The fleet as it was',
	view: () => import('./Then.svelte'),
} satisfies Page;
