import type { Page } from '$lib/page';

export default {
	paths: ['/room/:name'],
	title: 'Room',
	isOpen: true,
	view: () => import('./Room.svelte'),
} satisfies Page;
