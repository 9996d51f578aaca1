import type { Page } from '$lib/page';

export default {
	paths: ['/welcome'],
	title: 'Welcome',
	isOpen: true,
	view: () => import('./Welcome.svelte'),
} satisfies Page;
