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

/** A participant without a page, as an application that shows something to agents has: what it got, and a way to send. */
export async function joinAsApp(hub, room, announce) {
	const socket = new WebSocket(`${hub.http.replace('http', 'ws')}/rooms/${room}/ws`);
	const got = [];
	const waiting = [];
	socket.onmessage = ({ data }) => {
		got.push(JSON.parse(data));
		for (const look of waiting.splice(0)) look();
	};
	const send = (frame) => socket.send(JSON.stringify(frame));
	/** The first frame that it is so of. */
	const hears = async (isIt) => {
		const signal = AbortSignal.timeout(15_000);
		for (;;) {
			const found = got.find(isIt);
			if (found) return found;
			if (signal.aborted) throw new Error(`not heard; but: ${JSON.stringify(got)}`);
			await new Promise((resolve) => {
				waiting.push(resolve);
				signal.addEventListener('abort', resolve, { once: true });
			});
		}
	};
	await hears(({ t }) => t === 'hello');
	send({ t: 'voice', on: true, ...announce });
	await hears(({ t }) => t === 'id');
	return { hears, say: (payload, to) => send({ t: 'to', ...(to ? { id: to } : {}), payload }), leave: () => socket.close() };
}

/** Has an agent say something until a page shows it: it hears of its grant by itself, so it may be refused at first. */
export async function saysUntilHeard(agent, text, page) {
	const heard = () => page.getByRole('log').getByText(text).first().waitFor({ timeout: 1_000 });
	for (let tries = 0; tries < 15; tries++) {
		agent.say(text);
		if (await heard().then(() => true, () => false)) return;
	}
	throw new Error(`the agent was never heard saying ${text}`);
}

/** Says something, and waits until the page shows it. */
export async function saidIn(page, text) {
	await page.getByRole('textbox', { name: 'Message' }).fill(text);
	await page.getByRole('button', { name: 'Send' }).click();
	await page.waitForFunction(() => document.querySelector('input[aria-label="Message"]').value === '');
}
