// Chromium and what every test does with it.

import assert from 'node:assert/strict';
import { mkdirSync, mkdtempSync, readFileSync, rmSync } from 'node:fs';
import { createRequire } from 'node:module';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { chromium } from 'playwright-core';

const FLAGS = [
	'--disable-gpu',
	'--disable-quic',
	'--no-first-run',
	'--disable-background-networking',
	'--disable-component-update',
	'--disable-sync',
	// A microphone that beeps, a camera and a screen that count, given to whoever asks.
	'--use-fake-device-for-media-stream',
	'--use-fake-ui-for-media-stream',
	'--auto-select-desktop-capture-source=Entire screen',
	...(process.getuid?.() === 0 ? ['--no-sandbox'] : []),
];

const axe = readFileSync(createRequire(import.meta.url).resolve('axe-core/axe.min.js'), 'utf8');

/** The password of everybody in the tests. */
export const PASSWORD = 'correct horse battery';

/** Where pictures of the pages are left. */
export const PICTURES = process.env.PAGE_PICTURES ?? join(import.meta.dirname, '../../target/page');

const PROGRAM = { executablePath: process.env.CHROMIUM ?? '/usr/bin/chromium', args: FLAGS };
/** A browser that nobody needs for so long is closed. */
const IDLE_MS = 300;

let browser;
let users = 0;

/** A window with an empty profile, in the one browser of this process. */
async function ownWindow(options) {
	users += 1;
	browser ??= chromium.launch(PROGRAM);
	const context = await (await browser).newContext(options);
	const close = async () => {
		await context.close();
		users -= 1;
		setTimeout(async () => {
			if (users > 0) return;
			const idle = browser;
			browser = undefined;
			await (await idle)?.close();
		}, IDLE_MS);
	};
	return { context, close };
}

/** A browser of its own, for what there is not in a window that forgets everything: push. */
async function ownBrowser(options) {
	const profile = mkdtempSync(join(tmpdir(), 'convoke-chromium-'));
	const context = await chromium.launchPersistentContext(profile, { ...PROGRAM, ...options });
	const close = async () => {
		await context.close();
		rmSync(profile, { recursive: true, force: true });
	};
	return { context, close };
}

/**
 * Does something in a browser with an empty profile. Fails on any breach of the page's policy, any uncaught error, and
 * any request that left the hub.
 */
export async function inBrowser(body, { width = 1280, height = 800, colorScheme = 'light', hasTouch = false, isOwn = false } = {}) {
	const { context, close } = await (isOwn ? ownBrowser : ownWindow)({
		viewport: { width, height },
		colorScheme,
		hasTouch,
		acceptDownloads: true,
		locale: 'en-GB',
		timezoneId: 'Europe/Berlin',
	});
	try {
		context.setDefaultTimeout(15_000);
		const { complaints, strangers } = watched(context);
		await body(context.pages()[0] ?? (await context.newPage()), context);
		assert.deepEqual(complaints, [], 'the browser complained');
		assert.deepEqual(strangers, [], 'a request left the hub');
	} catch (why) {
		await picture(context.pages()[0], 'failed').catch(() => {});
		throw why;
	} finally {
		await close();
	}
}

/** What must not happen, collected. */
function watched(context) {
	const complaints = [];
	const strangers = [];
	context.on('request', (request) => {
		const { protocol, hostname } = new URL(request.url());
		if (/^(https?|wss?):$/.test(protocol) && !['127.0.0.1', 'localhost'].includes(hostname)) strangers.push(request.url());
	});
	const watch = (page) => {
		page.on('pageerror', (error) => complaints.push(String(error.stack ?? error)));
		page.on('console', (message) => {
			if (/Policy/.test(message.text())) complaints.push(message.text());
		});
	};
	context.on('page', watch);
	for (const page of context.pages()) watch(page);
	return { complaints, strangers };
}

/** Waits until the page follows what happens. */
export async function isLive(page) {
	await page.getByRole('status').filter({ hasText: /Live$/ }).waitFor();
}

/** Signs in with a token, and waits until the page is live. */
export async function signIn(page, hub, path = '/', token = hub.token) {
	await page.goto(`${hub.http}/signin?to=${encodeURIComponent(path)}`);
	await page.getByRole('button', { name: 'Use a token instead' }).click();
	await page.getByLabel('Operator token').fill(token);
	await page.getByRole('button', { name: 'Sign in' }).click();
	await isLive(page);
}

/** Signs a person in, in a session that outlives a reload. */
export async function enter(page, hub, user, path = '/') {
	await page.goto(`${hub.http}/signin?to=${encodeURIComponent(path)}`);
	await page.getByLabel('Name').fill(user);
	await page.getByLabel('Password').fill(PASSWORD);
	await page.getByRole('button', { name: 'Sign in' }).click();
	await isLive(page);
}

/** Shows the password once more, if the page asks for it. */
export async function stepUp(page) {
	const dialog = page.getByRole('dialog', { name: 'Is it still you?' });
	await dialog.getByLabel('Password').fill(PASSWORD);
	await dialog.getByRole('button', { name: 'Go on' }).click();
	await dialog.waitFor({ state: 'hidden' });
}

/** Nothing that a machine, a model or a person wrote became more than text. */
export async function isHarmless(page, what) {
	const found = await page.evaluate(() => ({
		ran: globalThis.pwned,
		images: [...document.querySelectorAll('img')].filter((one) => one.getAttribute('src') === 'x').length,
		turned: [...document.body.innerText].filter((c) => /[\u202a-\u202e\u2066-\u2069\u0007\u001b]/.test(c)).length,
	}));
	assert.deepEqual(found, { ran: undefined, images: 0, turned: 0 }, `${what} let something through`);
}

/** Goes to another page without a reload, which would forget the token. */
export async function visit(page, path) {
	await page.evaluate((path) => {
		const link = document.createElement('a');
		link.href = path;
		document.body.append(link);
		link.click();
		link.remove();
	}, path);
	await page.waitForFunction((path) => location.pathname + location.search === path, path);
}

/** No violation of WCAG A and AA on what is shown. */
export async function isAccessible(page, what) {
	await page.evaluate(axe);
	const violations = await page.evaluate(async () => {
		const tags = ['wcag2a', 'wcag2aa', 'wcag21a', 'wcag21aa', 'wcag22aa'];
		const { violations } = await globalThis.axe.run(document, { runOnly: { type: 'tag', values: tags } });
		return violations.map(({ id, nodes }) => `${id}: ${nodes.slice(0, 3).map(({ html, failureSummary }) => `${html}\n   ${failureSummary}`).join('\n  ')}`);
	});
	assert.deepEqual(violations, [], `${what} has violations`);
}

/** Nothing sticks out at the side. */
export async function fits(page, what) {
	const wide = await page.evaluate(() => {
		const width = document.documentElement.clientWidth;
		const main = document.querySelector('main') ?? document.body;
		return Math.max(document.documentElement.scrollWidth - width, main.scrollWidth - main.clientWidth);
	});
	assert.ok(wide <= 0, `${what} is ${wide} px too wide`);
}

/** Keeps a picture of what is shown. */
export async function picture(page, name) {
	mkdirSync(PICTURES, { recursive: true });
	await page.screenshot({ path: join(PICTURES, `${name}.png`) });
}
