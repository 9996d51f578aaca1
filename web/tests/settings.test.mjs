// Settings: people, sessions, tokens, machines, assistants, the hub itself.

import assert from 'node:assert/strict';
import { createHmac } from 'node:crypto';
import { readFileSync } from 'node:fs';
import { after, before, test } from 'node:test';
import { joinMachine } from './agent.mjs';
import { enter, inBrowser, isAccessible, isLive, PASSWORD, visit } from './browser.mjs';
import { startHouse } from './house.mjs';

let house;
let hub;

before(async () => {
	house = await startHouse();
	hub = house.hub;
});
after(() => house?.stop());

test('an admin adds a user, who comes in by the link and sets a password', () =>
	inBrowser(async (page, context) => {
		await enter(page, hub, 'anna', '/settings/users');
		await page.getByRole('button', { name: 'Add a user' }).click();
		const dialog = page.getByRole('dialog');
		await dialog.getByLabel('Name').fill('carla');
		await dialog.getByRole('radio', { name: /viewer/ }).check();
		await isAccessible(page, 'the form for a user');
		await dialog.getByRole('button', { name: 'Add' }).click();
		await page.getByRole('cell', { name: 'carla', exact: true }).waitFor();
		const link = (await page.getByRole('region', { name: 'One-time link' }).textContent()) ?? '';
		assert.match(link, /\/welcome#/);
		await context.clearCookies();
		await page.goto('about:blank');
		await page.goto(`${hub.http}/welcome${link.slice(link.indexOf('#'))}`);
		await page.getByRole('heading', { name: 'Welcome, carla' }).waitFor();
		assert.equal(new URL(page.url()).hash, '', 'the secret is gone from the address');
		await isAccessible(page, 'the welcome');
		await page.getByLabel(/^Password/).fill(PASSWORD);
		await page.getByLabel('The same again').fill(PASSWORD);
		await page.getByRole('button', { name: 'Set the password' }).click();
		await isLive(page);
		await page.goto(`${hub.http}/welcome${link.slice(link.indexOf('#'))}`);
		await page.getByRole('alert').waitFor();
	}));

test('removing a user says what ends with them', () =>
	inBrowser(async (page) => {
		await hub.api('POST', '/api/users', { name: 'gone', role: 'viewer', password: PASSWORD });
		await enter(page, hub, 'anna', '/settings/users');
		await page.getByRole('button', { name: 'Remove gone' }).click();
		const dialog = page.getByRole('dialog', { name: 'Remove gone?' });
		await dialog.getByText(/tokens are revoked at once/).waitFor();
		await dialog.getByLabel(/Type/).fill('gone');
		await dialog.getByRole('button', { name: 'Remove them' }).click();
		await page.getByRole('cell', { name: 'gone', exact: true }).waitFor({ state: 'detached' });
	}));

test('a session that is ended somewhere else leads back to the sign-in', () =>
	inBrowser(async (page) => {
		await enter(page, hub, 'ben', '/settings/sessions');
		await page.getByText('this one').waitFor();
		const { sessions } = await hub.api('GET', '/api/sessions?user=ben');
		for (const { id } of sessions) await hub.api('DELETE', `/api/sessions/${id}`);
		await page.getByText('Your session has ended. Sign in again.').waitFor();
	}));

test('a token is made, shown once, and revoked', () =>
	inBrowser(async (page) => {
		await enter(page, hub, 'anna', '/settings/tokens');
		await page.getByRole('button', { name: 'Make a token' }).click();
		const dialog = page.getByRole('dialog');
		await dialog.getByLabel('Name').fill('backup job');
		await dialog.getByLabel('Role').selectOption('viewer');
		await dialog.getByRole('button', { name: 'Make it' }).click();
		const token = (await page.getByRole('region', { name: 'The token' }).textContent()) ?? '';
		assert.equal((await hub.api('GET', '/api/session', undefined, token)).user, 'backup job');
		await page.getByRole('button', { name: 'Revoke backup job' }).click();
		await page.getByRole('button', { name: 'Revoke it' }).click();
		await page.getByRole('cell', { name: 'backup job', exact: true }).waitFor({ state: 'detached' });
		await assert.rejects(hub.api('GET', '/api/session', undefined, token), /401/);
		await page.getByRole('button', { name: 'Pause claude' }).click();
		await page.getByRole('button', { name: 'Let go on claude' }).waitFor();
		await page.getByRole('button', { name: 'Let go on claude' }).click();
		await page.getByRole('button', { name: 'Pause claude' }).waitFor();
	}));

test('a machine is added, and the page says when it is there', () =>
	inBrowser(async (page) => {
		await enter(page, hub, 'anna', '/settings/add-machine');
		await page.getByLabel('Its id').fill('kitchen-pc');
		await page.getByRole('button', { name: 'Make a one-time token' }).click();
		const lines = (await page.getByRole('region', { name: 'Commands to add the machine' }).textContent()) ?? '';
		assert.match(lines, new RegExp(`--hub ${hub.http} --id kitchen-pc --token cve_\\S+ --hub-key`));
		await page.getByText('Waiting for kitchen-pc to connect').waitFor();
		const kitchen = await joinMachine(hub, 'kitchen-pc');
		await page.getByText('kitchen-pc is here.').waitFor();
		await kitchen.leave();
		await page.getByRole('radio', { name: 'Windows' }).check();
		await page.getByLabel('Its id').fill('win-pc');
		await page.getByRole('button', { name: 'Make a one-time token' }).click();
		await page.getByText('convoke-agent.exe install').waitFor();
	}));

test('an assistant gets its token and its lines', () =>
	inBrowser(async (page) => {
		await enter(page, hub, 'anna', '/settings/assistants');
		await page.getByLabel('Its name').fill('cursor');
		await page.getByRole('button', { name: 'Make a token' }).click();
		await page.getByText('Made.').waitFor();
		await page.getByLabel('Assistant').selectOption('cursor');
		const text = (await page.getByRole('region', { name: 'What to put there' }).textContent()) ?? '';
		const { mcpServers } = JSON.parse(text);
		assert.equal(mcpServers.convoke.url, `${hub.http}/mcp`);
		assert.match(mcpServers.convoke.headers.Authorization, /^Bearer cvk_/);
	}));

test('one-time codes are turned on with the code that an app shows', () =>
	inBrowser(async (page) => {
		await hub.api('POST', '/api/users', { name: 'dora', role: 'operator', password: PASSWORD });
		await enter(page, hub, 'dora', '/settings');
		await page.getByRole('button', { name: 'Turn them on' }).click();
		await page.getByRole('img', { name: /QR code/ }).waitFor();
		const secret = (await page.locator('section', { hasText: 'Or type it' }).locator('code').textContent()) ?? '';
		await page.getByLabel('The code that it shows').fill(codeOf(secret));
		await page.getByRole('button', { name: 'Use it from now on' }).click();
		await page.getByRole('button', { name: 'Turn them off' }).waitFor();
		await page.getByRole('button', { name: 'Sign out' }).click();
		await page.getByLabel('Name').fill('dora');
		await page.getByLabel('Password').fill(PASSWORD);
		await page.getByRole('button', { name: 'Sign in' }).click();
		await page.getByLabel('Code from your authenticator').waitFor();
	}));

/** The code of this moment (RFC 6238). */
function codeOf(secret) {
	const bits = [...secret.replace(/[=\s]/g, '').toUpperCase()].map((c) => 'ABCDEFGHIJKLMNOPQRSTUVWXYZ234567'.indexOf(c).toString(2).padStart(5, '0')).join('');
	const key = Buffer.from(bits.match(/.{8}/g).map((byte) => Number.parseInt(byte, 2)));
	const counter = Buffer.alloc(8);
	counter.writeBigUInt64BE(BigInt(Math.floor(Date.now() / 30_000)));
	const hash = createHmac('sha1', key).update(counter).digest();
	return String((hash.readUInt32BE(hash[19] & 15) & 0x7fffffff) % 1_000_000).padStart(6, '0');
}

test('a backup is made now, downloaded, and noted', () =>
	inBrowser(async (page) => {
		await enter(page, hub, 'anna', '/settings/hub');
		await page.getByText(/^Last made.*never$/).waitFor();
		await page.getByRole('button', { name: 'Make a backup now…' }).click();
		await page.getByLabel('Passphrase (optional)').fill('correct horse');
		await isAccessible(page, 'the question before a backup');
		const coming = page.waitForEvent('download');
		await page.getByRole('button', { name: 'Make and download it' }).click();
		const file = await coming;
		assert.match(file.suggestedFilename(), /^convoke-\d{4}-\d\d-\d\d\.backup$/);
		const end = readFileSync(await file.path()).subarray(-16).toString();
		assert.equal(end, 'convoke-backup\r\n');
		await page.getByText(/^Last made.*by anna$/).waitFor();
	}));

test('a browser that gets no notices any more says so', () =>
	inBrowser(async (page) => {
		await enter(page, hub, 'anna', '/settings/notices');
		await page.getByRole('heading', { name: 'Where you are told' }).waitFor();
		assert.equal(await page.getByText('This browser gets no notices any more.').count(), 0);
		await page.evaluate(() => localStorage.setItem('notices-here', `anna ${crypto.randomUUID()}`));
		await visit(page, '/settings');
		await visit(page, '/settings/notices');
		await page.getByText('This browser gets no notices any more.').waitFor();
		await isAccessible(page, 'notices that have ended');
		await page.getByRole('button', { name: 'Leave it so' }).click();
		await page.getByText('This browser gets no notices any more.').waitFor({ state: 'hidden' });
	}));

test('what is kept and what is set is shown to admins, and to others what is theirs', () =>
	inBrowser(async (page) => {
		await enter(page, hub, 'anna', '/settings/hub');
		await page.getByRole('region', { name: 'Lines for convoke.toml' }).getByText(/telemetry_days = 30/).waitFor();
		await page.getByLabel('Search settings').fill('retention');
		await page.getByRole('cell', { name: 'retention.telemetry_days' }).waitFor();
		await page.getByRole('button', { name: 'Sign out' }).click();
		await enter(page, hub, 'vera', '/settings/users');
		await page.getByText('This is for admins.').waitFor();
		assert.equal(await page.getByRole('link', { name: 'Tokens' }).count(), 0);
		await visit(page, '/settings/hub');
		await page.getByRole('heading', { name: 'Backup' }).waitFor();
		assert.equal(await page.getByRole('heading', { name: 'Settings in force' }).count(), 0);
	}));
