// What tests of the room page do again and again.

import { inBrowser } from './browser.mjs';

/** Two browsers that know nothing of each other: a page of each, and the second one's context for more. */
export function inBrowsers(body, options) {
	return inBrowser((one) => inBrowser((two, context) => body(one, two, context), options), options);
}

/** Comes into an open room under a name. */
export async function come(page, hub, room, name) {
	await page.goto(`${hub.http}/room/${room}`);
	await page.getByLabel('Your name').fill(name);
	await page.getByRole('button', { name: 'Come in' }).click();
	await isIn(page);
}

/** Waits until a page is in its room, and connected. */
export function isIn(page, timeout = 20_000) {
	return page.getByRole('status').filter({ hasText: 'Connected' }).waitFor({ timeout });
}

/** A link that lets somebody in. */
export async function inviteLink(hub, room, name, host = false) {
	const { invite } = await hub.api('POST', `/api/rooms/${room}/invites`, { name, host });
	return `${hub.http}/room/${room}#invite=${invite}`;
}

/** Says something, and waits until the page shows it. */
export async function saidIn(page, text) {
	await page.getByRole('textbox', { name: 'Message' }).fill(text);
	await page.getByRole('button', { name: 'Send' }).click();
	await page.waitForFunction(() => document.querySelector('input[aria-label="Message"]').value === '');
}
