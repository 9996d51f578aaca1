import type { Page } from '$lib/page';

export default {
	paths: ['/signin'],
	title: 'Sign in',
	isOpen: true,
	view: () => import('./SignIn.svelte'),
} satisfies Page;
