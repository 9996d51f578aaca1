import type { Page } from '$lib/page';

export default {
	paths: ['/logs'],
	title: 'Logs of all machines',
	view: () => import('./Logs.svelte'),
} satisfies Page;
