import type { Page } from '$lib/page';

export default {
	paths: ['/probes/runs/:id'],
	title: 'Run of a runbook',
	view: () => import('./Run.svelte'),
} satisfies Page;
