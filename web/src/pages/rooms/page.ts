import Icon from '@lucide/svelte/icons/messages-square';
import type { Page } from '$lib/page';

export default {
	paths: ['/rooms', '/rooms/:name'],
	title: 'Rooms',
	nav: { order: 6, icon: Icon },
	view: () => import('./Rooms.svelte'),
} satisfies Page;
