import Icon from '@lucide/svelte/icons/server';
import type { Page } from '$lib/page';

export default {
	paths: ['/machines'],
	title: 'Machines',
	nav: { order: 2, icon: Icon },
	view: () => import('./Machines.svelte'),
} satisfies Page;
