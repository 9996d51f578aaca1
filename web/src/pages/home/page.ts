import Icon from '@lucide/svelte/icons/house';
import type { Page } from '$lib/page';

export default {
	paths: ['/'],
	title: 'Home',
	nav: { order: 1, icon: Icon },
	view: () => import('./Home.svelte'),
} satisfies Page;
