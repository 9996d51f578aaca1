import Icon from '@lucide/svelte/icons/shield';
import type { Page } from '$lib/page';

export default {
	paths: ['/policy', '/policy/:part'],
	title: 'Policy',
	nav: { order: 7, icon: Icon, key: 'y' },
	view: () => import('./Policy.svelte'),
} satisfies Page;
