import Icon from '@lucide/svelte/icons/check-check';
import type { Page } from '$lib/page';

export default {
	paths: ['/approvals', '/approvals/:id'],
	title: 'Approvals',
	nav: { order: 3, icon: Icon },
	view: () => import('./Approvals.svelte'),
} satisfies Page;
