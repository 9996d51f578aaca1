// Shows what the hub pushes, and opens the page where it is decided. It caches nothing: what is shown is never stale.

self.addEventListener('push', (event) => {
	let notice = {};
	try {
		notice = event.data?.json() ?? {};
	} catch {
		// Not from the hub: only whoever has the subscription's keys can write one that is read.
	}
	const { title = 'Convoke', text = '', handle = 'notice', url = '/' } = notice;
	// The same thing told twice is one notice.
	event.waitUntil(self.registration.showNotification(String(title), { body: String(text), tag: String(handle), icon: '/icon.svg', data: { url: String(url) } }));
});

/** Only a place of this page: whatever stands in a notice leads nowhere else. */
function placeOf(url) {
	try {
		const { pathname, search } = new URL(url, self.location.origin);
		return pathname + search;
	} catch {
		return '/';
	}
}

self.addEventListener('notificationclick', (event) => {
	event.notification.close();
	const place = placeOf(event.notification.data?.url ?? '/');
	event.waitUntil(
		(async () => {
			const open = await self.clients.matchAll({ type: 'window', includeUncontrolled: true });
			const [page] = open;
			if (!page) return self.clients.openWindow(place);
			await page.focus();
			page.postMessage({ go: place });
		})(),
	);
});
