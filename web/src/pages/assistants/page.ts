import Icon from '@lucide/svelte/icons/bot';
import type { Page } from '$lib/page';

export default {
	paths: ['/assistants', '/assistants/:id'],
	title: 'Assistants',
	nav: { order: 7.5, icon: Icon, key: 'i' },
	right: 'tokens',
	view: () => import('./Assistants.svelte'),
} satisfies Page;
