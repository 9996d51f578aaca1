import Icon from '@lucide/svelte/icons/scroll-text';
import type { Page } from '$lib/page';

export default {
	paths: ['/journal'],
	title: 'Journal',
	nav: { order: 8, icon: Icon },
	view: () => import('./Journal.svelte'),
} satisfies Page;
