// The first thing a person meets: signing in, what it weighs, that it stays alive.

import assert from 'node:assert/strict';
import { readFileSync } from 'node:fs';
import { join } from 'node:path';
import { after, before, test } from 'node:test';
import { gzipSync } from 'node:zlib';
import { startHub } from '../scripts/hub.mjs';
import { enter, inBrowser, isAccessible, isLive, PASSWORD, picture, signIn, visit } from './browser.mjs';

let hub;

before(async () => {
	hub = await startHub();
});
after(() => hub.stop());

test('without a session every address leads to the sign-in, and back', () =>
	inBrowser(async (page) => {
		await page.goto(`${hub.http}/machines?q=tag%3Alab`);
		await page.getByRole('heading', { name: 'Sign in to Convoke' }).waitFor();
		await isAccessible(page, 'the sign-in');
		await page.getByRole('button', { name: 'Use a token instead' }).click();
		await page.getByLabel('Operator token').fill('cvk_wrong');
		await page.getByRole('button', { name: 'Sign in' }).click();
		await page.getByRole('alert').waitFor();
		await page.getByLabel('Operator token').fill(hub.token);
		await page.getByRole('button', { name: 'Sign in' }).click();
		await page.getByRole('heading', { name: 'Machines' }).waitFor();
		assert.equal(new URL(page.url()).search, '?q=tag%3Alab');
	}));

test('nobody is sent elsewhere after signing in', () =>
	inBrowser(async (page) => {
		for (const to of ['//evil.example', 'https://evil.example', '/\\evil.example']) {
			await signIn(page, hub, to);
			assert.equal(new URL(page.url()).origin, hub.http);
		}
	}));

test('the page says when the hub is away, and catches up when it is back', () =>
	inBrowser(async (page) => {
		await signIn(page, hub);
		await hub.kill();
		await page.getByText(/last heard/).waitFor();
		await hub.start();
		await isLive(page);
	}));

test('the entry, the home page and a room are light, and only rooms on the mesh load WebRTC’s library', () => {
	const dist = join(import.meta.dirname, '../dist');
	const manifest = JSON.parse(readFileSync(join(dist, '.vite/manifest.json'), 'utf8'));
	let files = new Set();
	const gather = (key) => {
		const chunk = manifest[key];
		for (const file of [chunk.file, ...(chunk.css ?? [])]) files.add(file);
		for (const other of chunk.imports ?? []) gather(other);
	};
	const weight = () => [...files].reduce((sum, file) => sum + gzipSync(readFileSync(join(dist, file)), { level: 9 }).length, 0);
	gather('index.html');
	const entry = weight();
	gather('src/pages/home/Home.svelte');
	const home = weight();
	files = new Set();
	for (const key of ['index.html', 'src/pages/room/Room.svelte']) gather(key);
	const room = weight();
	gather('src/pages/room/mesh.ts');
	const mesh = weight();
	console.log(`entry ${entry} bytes, home ${home} bytes, a room ${room} bytes, on the mesh ${mesh} bytes, compressed`);
	assert.ok(entry <= 60_000, `the entry has ${entry} bytes`);
	assert.ok(home <= 120_000, `the home page has ${home} bytes`);
	assert.ok(room <= 80_000, `a room has ${room} bytes`);
	assert.ok(mesh - room <= 35_000, `the mesh has ${mesh - room} bytes more`);
});

test('the first admin is made behind the link that the start prints', async () => {
	const fresh = await startHub();
	try {
		await inBrowser(async (page) => {
			await page.goto(fresh.ready.welcome);
			await page.getByText('You are the first, and its admin.').waitFor();
			assert.equal(new URL(page.url()).hash, '', 'the secret is gone from the address');
			await isAccessible(page, 'the welcome');
			await picture(page, 'welcome-1280-light');
			await page.getByLabel('Your name').fill('anna');
			await page.getByLabel(/^Password/).fill(PASSWORD);
			await page.getByLabel('The same again').fill('something else');
			await page.getByRole('button', { name: 'Begin' }).click();
			await page.getByText('the two passwords are not the same').waitFor();
			await page.getByLabel('The same again').fill(PASSWORD);
			await page.getByRole('button', { name: 'Begin' }).click();
			await isLive(page);
			await page.getByText('Signed in as anna, admin').waitFor();
			await page.reload();
			await isLive(page);
		});
	} finally {
		await fresh.stop();
	}
});

test('a passkey is made, signs in, and counts as a step-up', async () => {
	await hub.api('POST', '/api/users', { name: 'paula', role: 'admin', scopes: { approve: true }, password: PASSWORD });
	// A passkey belongs to a name; browsers take none for bare addresses.
	const named = { ...hub, http: hub.http.replace('127.0.0.1', 'localhost') };
	await inBrowser(async (page, context) => {
		const cdp = await context.newCDPSession(page);
		await cdp.send('WebAuthn.enable');
		await cdp.send('WebAuthn.addVirtualAuthenticator', {
			options: {
				protocol: 'ctap2',
				transport: 'internal',
				hasResidentKey: true,
				hasUserVerification: true,
				isUserVerified: true,
				automaticPresenceSimulation: true,
			},
		});
		await enter(page, named, 'paula', '/settings');
		await page.getByLabel('What to call it').fill('this laptop');
		await page.getByRole('button', { name: 'Make a passkey' }).click();
		await page.getByText('this laptop').waitFor();
		await page.getByRole('button', { name: 'Sign out' }).click();
		await page.getByRole('button', { name: 'Use a passkey' }).click();
		await isLive(page);
		await page.getByText('Signed in as paula, admin').waitFor();
		// The hub asks again; here its clock cannot be turned.
		let isFirst = true;
		await page.route('**/api/tokens', (route) => {
			if (route.request().method() !== 'POST' || !isFirst) return route.continue();
			isFirst = false;
			return route.fulfill({ status: 403, json: { error: { code: 'step_up', message: 'show it again', request_id: 'r' } } });
		});
		await visit(page, '/settings/tokens');
		await page.getByRole('button', { name: 'Make a token' }).click();
		await page.getByRole('dialog').getByLabel('Name').fill('from a passkey');
		await page.getByRole('button', { name: 'Make it' }).click();
		await page.getByRole('dialog', { name: 'Is it still you?' }).getByRole('button', { name: 'Use a passkey' }).click();
		await page.getByRole('region', { name: 'The token' }).waitFor();
	});
});

test('on a bare address the page says where passkeys work', () =>
	inBrowser(async (page) => {
		await page.goto(`${hub.http}/signin`);
		await page.getByText(/Passkeys work at/).waitFor();
		assert.equal(await page.getByRole('button', { name: 'Use a passkey' }).count(), 0);
	}));

test('a token is forgotten by a reload, a session is not', () =>
	inBrowser(async (page) => {
		await signIn(page, hub);
		await page.reload();
		await page.getByRole('heading', { name: 'Sign in to Convoke' }).waitFor();
		await enter(page, hub, 'paula', '/machines');
		await page.reload();
		await page.getByRole('heading', { name: 'Machines' }).waitFor();
	}));

test('a wrong password is told in words, and says nothing about the name', () =>
	inBrowser(async (page) => {
		await page.goto(`${hub.http}/signin`);
		for (const name of ['paula', 'nobody']) {
			await page.getByLabel('Name').fill(name);
			await page.getByLabel('Password').fill('not the password');
			await page.getByRole('button', { name: 'Sign in' }).click();
			await page.getByText('the name or the password is wrong').waitFor();
		}
	}));

test('two tabs share one stream, and both are live after a restart', () =>
	inBrowser(async (page, context) => {
		await enter(page, hub, 'paula');
		const other = await context.newPage();
		await other.goto(`${hub.http}/machines`);
		await isLive(other);
		await hub.kill();
		await page.getByText(/last heard/).waitFor();
		await hub.start();
		await Promise.all([isLive(page), isLive(other)]);
		await hub.api('POST', '/api/agents/new-one/token');
		await other.getByText('new-one').waitFor();
	}));
