// The parts of a machine's page, each loaded when it is opened.

import type { Component } from 'svelte';
import type { Machine } from '$lib/fleet.svelte';
import type { Tool } from '$lib/tools';

export interface TabProps {
	machine: Machine;
	tools: Tool[];
	reload: () => void;
}

export interface Tab {
	key: string;
	title: string;
	/** Only for machines that have one of these. */
	needs?: string[];
	/** Only for whoever has this right. */
	right?: string;
	view: () => Promise<{ default: Component<TabProps> }>;
}

export const TABS: Tab[] = [
	{ key: '', title: 'Overview', view: () => import('./Overview.svelte') },
	{ key: 'processes', title: 'Processes', needs: ['diag_processes'], view: () => import('./Processes.svelte') },
	{ key: 'services', title: 'Services', needs: ['diag_services'], view: () => import('./Services.svelte') },
	{ key: 'logs', title: 'Logs', view: () => import('./Logs.svelte') },
	{ key: 'files', title: 'Files', needs: ['fs_list'], view: () => import('./Files.svelte') },
	{ key: 'screen', title: 'Screen', needs: ['screen_capture'], view: () => import('./Screen.svelte') },
	{ key: 'terminal', title: 'Terminal', needs: ['shell_exec', 'powershell_exec'], view: () => import('./Terminal.svelte') },
	{ key: 'tools', title: 'Tools', view: () => import('./Tools.svelte') },
	{ key: 'journal', title: 'Journal', view: () => import('./Record.svelte') },
	{ key: 'manage', title: 'Manage', view: () => import('./Manage.svelte') },
];
