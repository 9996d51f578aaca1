// Notices that the service worker shows.

import { find, router } from './router.svelte';

/** A notice that was clicked leads to its place in a page that is open already. */
export function followNotices(): void {
	if (!('serviceWorker' in navigator)) return;
	navigator.serviceWorker.addEventListener('message', ({ data }: MessageEvent<{ go?: unknown }>) => {
		if (typeof data?.go === 'string' && data.go.startsWith('/') && find(new URL(data.go, location.origin).pathname)) router.go(data.go);
	});
}
