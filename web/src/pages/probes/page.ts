import Icon from '@lucide/svelte/icons/stethoscope';
import type { Page } from '$lib/page';

export default {
	paths: ['/probes'],
	title: 'Probes',
	nav: { order: 4, icon: Icon },
	view: () => import('./Probes.svelte'),
} satisfies Page;
