import Icon from '@lucide/svelte/icons/radio-tower';
import type { Page } from '$lib/page';

export default {
	paths: ['/clients', '/clients/:part'],
	title: 'Clients',
	nav: { order: 5, icon: Icon },
	view: () => import('./Clients.svelte'),
} satisfies Page;
