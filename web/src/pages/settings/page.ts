import Icon from '@lucide/svelte/icons/settings';
import type { Page } from '$lib/page';

export default {
	paths: ['/settings', '/settings/:part'],
	title: 'Settings',
	nav: { order: 9, icon: Icon },
	view: () => import('./Settings.svelte'),
} satisfies Page;
