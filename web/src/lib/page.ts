// A page is a folder below `pages/` with a `page.ts` that says what it is. Nothing else has to know of it.

import type { Component } from 'svelte';

export interface Page {
	/** Its addresses; the first is where the navigation leads. */
	paths: `/${string}`[];
	title: string;
	/** Where it stands in the navigation; not there, if absent. */
	nav?: {
		order: number;
		icon: Component<{ size?: number; 'aria-hidden'?: 'true' }>;
		/** What goes there after `g`; the first letter of the title, if absent. */
		key?: string;
	};
	/** The right without which it is not offered. */
	right?: string;
	/** For whoever is not signed in. */
	isOpen?: boolean;
	view: () => Promise<{ default: Component }>;
}

const folders = import.meta.glob<{ default: Page }>('../pages/*/page.ts', { eager: true });

export const allPages: Page[] = Object.values(folders).map((folder) => folder.default);

export const navigation: Page[] = allPages
	.filter((page) => page.nav)
	.sort((a, b) => (a.nav?.order ?? 0) - (b.nav?.order ?? 0));
