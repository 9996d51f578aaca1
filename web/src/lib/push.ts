// Web push for this browser: the service worker that shows notices, and the subscription that the hub sends to.

import { find, router } from './router.svelte';

/** Why this browser cannot be pushed to; nothing, if it can. */
export function whyNot(): string | undefined {
	if (!globalThis.isSecureContext) return 'browsers allow it on pages over https or on this machine only';
	if (!('serviceWorker' in navigator) || !('PushManager' in globalThis)) return 'this browser has no push';
	if (Notification.permission === 'denied') return 'you told the browser not to show notices of this page';
	return undefined;
}

async function worker(): Promise<ServiceWorkerRegistration> {
	await navigator.serviceWorker.register('/sw.js');
	return navigator.serviceWorker.ready;
}

/** Whether this browser is subscribed, and where. */
export async function subscribed(): Promise<string | undefined> {
	if (whyNot()) return undefined;
	const registration = await navigator.serviceWorker.getRegistration('/');
	return (await registration?.pushManager.getSubscription())?.endpoint;
}

/** Asks the person and the browser's push service; gives what the hub has to know. */
export async function subscribe(vapidKey: string): Promise<PushSubscriptionJSON> {
	if ((await Notification.requestPermission()) !== 'granted') throw new Error('the browser was not allowed to show notices');
	const registration = await worker();
	const old = await registration.pushManager.getSubscription();
	await old?.unsubscribe();
	const subscription = await registration.pushManager.subscribe({ userVisibleOnly: true, applicationServerKey: vapidKey });
	return subscription.toJSON();
}

const HERE = 'notices-here';

/** Which of a person's channels is this browser, as far as it was added here. */
export function channelHere(user: string): string | undefined {
	const [whose, channel] = (localStorage.getItem(HERE) ?? '').split(' ');
	return whose === encodeURIComponent(user) ? channel : undefined;
}

/** Remembers it, or forgets it. */
export function rememberHere(user: string, channel: string | undefined): void {
	if (channel === undefined) localStorage.removeItem(HERE);
	else localStorage.setItem(HERE, `${encodeURIComponent(user)} ${channel}`);
}

/** A notice that was clicked leads to its place in a page that is open already. */
export function followNotices(): void {
	if (!('serviceWorker' in navigator)) return;
	navigator.serviceWorker.addEventListener('message', ({ data }: MessageEvent<{ go?: unknown }>) => {
		if (typeof data?.go === 'string' && data.go.startsWith('/') && find(new URL(data.go, location.origin).pathname)) router.go(data.go);
	});
}
