// The address of the page and what it shows. Written here because a page needs exactly this much: a router from a
// package took clicks that ask for a new tab and told lazy views from others by their source text.

import type { Component } from 'svelte';
import { allPages, type Page } from './page';

export interface Found {
	page: Page;
	params: Record<string, string>;
}

/** The page that an address belongs to, with what stands for each `:name`. */
export function find(pathname: string, pages: Page[] = allPages): Found | undefined {
	const given = pathname.replace(/(.)\/+$/, '$1').split('/');
	for (const page of pages) {
		for (const path of page.paths) {
			const params = match(path.split('/'), given);
			if (params) return { page, params };
		}
	}
	return undefined;
}

function match(wanted: string[], given: string[]): Record<string, string> | undefined {
	if (wanted.length !== given.length) return undefined;
	const params: Record<string, string> = {};
	for (const [i, part] of wanted.entries()) {
		const here = given[i] ?? '';
		if (!part.startsWith(':')) {
			if (part !== here) return undefined;
			continue;
		}
		try {
			params[part.slice(1)] = decodeURIComponent(here);
		} catch {
			return undefined;
		}
	}
	return params;
}

class Router {
	pathname = $state(location.pathname);
	query = $state.raw(new URLSearchParams(location.search));
	readonly found = $derived(find(this.pathname));

	constructor() {
		addEventListener('popstate', () => this.#read());
		addEventListener('click', (event) => this.#click(event));
	}

	/** One of the names in the address. */
	param(name: string): string {
		return this.found?.params[name] ?? '';
	}

	/** Goes to an address of the page. */
	go(address: string, { replace = false } = {}): void {
		const url = new URL(address, location.href);
		if (url.href === location.href) return;
		history[replace ? 'replaceState' : 'pushState'](null, '', url);
		const isOther = url.pathname !== this.pathname;
		this.#read();
		if (isOther) document.getElementById('main')?.scrollTo(0, 0);
	}

	/** Changes parts of the query, so that the address is a link to what is on the screen. */
	set(changes: Record<string, string | undefined>, { replace = true } = {}): void {
		const query = new URLSearchParams(location.search);
		for (const [name, value] of Object.entries(changes)) {
			if (value === undefined || value === '') query.delete(name);
			else query.set(name, value);
		}
		const text = query.toString();
		this.go(this.pathname + (text === '' ? '' : `?${text}`), { replace });
	}

	#read() {
		this.pathname = location.pathname;
		this.query = new URLSearchParams(location.search);
	}

	#click(event: MouseEvent) {
		if (event.defaultPrevented || event.button !== 0) return;
		if (event.metaKey || event.ctrlKey || event.shiftKey || event.altKey) return;
		const anchor = (event.target as Element | null)?.closest?.('a');
		if (!anchor?.href || anchor.target || anchor.hasAttribute('download')) return;
		const url = new URL(anchor.href);
		if (url.origin !== location.origin || !find(url.pathname)) return;
		if (url.hash && url.pathname === location.pathname && url.search === location.search) return;
		event.preventDefault();
		this.go(url.href);
	}
}

export const router = new Router();

export type View = Component;
