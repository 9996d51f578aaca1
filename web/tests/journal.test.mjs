// The journal: finding a record, reading a call's whole story, taking it away as a file.

import assert from 'node:assert/strict';
import { readFileSync } from 'node:fs';
import { after, before, test } from 'node:test';
import { enter, inBrowser, isAccessible, isHarmless, visit } from './browser.mjs';
import { HOSTILE, startHouse } from './house.mjs';

let house;
let hub;

before(async () => {
	house = await startHouse();
	hub = house.hub;
	for (let n = 0; n < 5; n += 1) await hub.api('POST', '/api/agents/desk/call', { tool: 'fs_list', args: { path: `/folder-${n}` } });
	await hub.api('POST', '/api/agents/evil/call', { tool: 'fs_read', args: { path: HOSTILE } });
});
after(() => house?.stop());

test('records are searched and filtered, and new ones come by themselves', () =>
	inBrowser(async (page) => {
		await enter(page, hub, 'anna', '/journal');
		await page.getByText('fs_list on desk').first().waitFor();
		await page.getByLabel('Search in records').fill('folder-3');
		await page.getByText('fs_list on desk').nth(1).waitFor({ state: 'detached' });
		await page.getByText('fs_list on desk').click();
		await page.getByText('"path": "/folder-3"').waitFor();
		await isAccessible(page, 'an open record');
		await page.getByRole('link', { name: 'Show everything' }).click();
		await page.getByLabel('Kind').selectOption('user');
		await page.getByText('fs_list on desk').first().waitFor({ state: 'detached' });
		await page.getByText('signed in').first().waitFor();
		await visit(page, '/journal?tool=fs_search');
		await page.getByText('No record fits').waitFor();
		await hub.api('POST', '/api/agents/desk/call', { tool: 'fs_search', args: { root: '/', pattern: 'x' } });
		await page.getByText('fs_search on desk').waitFor();
	}));

test('a refusal is found among the refused, and its story told by link', () =>
	inBrowser(async (page) => {
		const refused = await fetch(`${hub.http}/api/agents/desk/call`, {
			method: 'POST',
			headers: { authorization: `Bearer ${hub.token}`, 'content-type': 'application/json' },
			body: JSON.stringify({ tool: 'shell_exec', args: { command: 'rm -rf --no-preserve-root /' } }),
		});
		const { call_id: call } = await refused.json();
		await enter(page, hub, 'anna', '/journal?refused=1');
		await page.getByRole('button', { name: /shell_exec on desk.*blocked/ }).click();
		await page.getByRole('link', { name: 'its whole story' }).click();
		await page.getByText('asked and was refused').waitFor();
		assert.equal(new URL(page.url()).searchParams.get('call'), call);
		await isAccessible(page, 'the story');
		await page.getByRole('link', { name: /^record \d+$/ }).first().click();
		await page.getByRole('heading', { name: /^Record/ }).waitFor();
	}));

test('what is shown is saved as lines of JSON', () =>
	inBrowser(async (page) => {
		await enter(page, hub, 'anna', '/journal?tool=fs_list');
		await page.getByText('fs_list on desk').first().waitFor();
		await page.getByRole('button', { name: 'Export' }).click();
		const [download] = await Promise.all([page.waitForEvent('download'), page.getByRole('button', { name: 'Save as a file' }).click()]);
		const lines = readFileSync(await download.path(), 'utf8').trim().split('\n').map((line) => JSON.parse(line));
		assert.ok(lines.length >= 5);
		assert.ok(lines.every(({ tool }) => tool === 'fs_list'));
		assert.ok(lines.every(({ seq }, i) => i === 0 || seq > lines[i - 1].seq), 'oldest first');
	}));

test('what machines and callers wrote stays text', () =>
	inBrowser(async (page) => {
		await enter(page, hub, 'anna', '/journal?agent=evil&tool=fs_read');
		await page.getByText('fs_read on evil').click();
		await page.getByText('⟨U+202E⟩').first().waitFor();
		await isHarmless(page, 'the journal');
	}));

test('keys move through the records', () =>
	inBrowser(async (page) => {
		await enter(page, hub, 'anna', '/journal');
		await page.getByText('fs_list on desk').first().waitFor();
		await page.keyboard.press('j');
		await page.keyboard.press('j');
		await page.locator('[aria-expanded=true]').waitFor();
		await page.keyboard.press('/');
		await page.keyboard.type('folder-1');
		assert.equal(await page.getByLabel('Search in records').inputValue(), 'folder-1');
	}));

test('the browser verifies the chain and its signatures, and finds what is missing', () =>
	inBrowser(async (page) => {
		await enter(page, hub, 'anna', '/journal/verify');
		await page.getByRole('button', { name: 'Verify now' }).click();
		await page.getByText(/It is whole: \d+ records/).waitFor();
		await isAccessible(page, 'a verified journal');
		await page.getByRole('button', { name: 'Keep it in this browser' }).click();
		await page.getByRole('button', { name: 'Verify now' }).click();
		await page.getByText('It continues what this browser saw before.').waitFor();
		// A hub that leaves out a record on the way.
		await page.route('**/api/export/journal*', async (route) => {
			const lines = (await (await route.fetch()).text()).split('\n');
			await route.fulfill({ status: 200, body: lines.toSpliced(3, 1).join('\n') });
		});
		await page.getByRole('button', { name: 'Verify now' }).click();
		await page.getByText('The journal does not verify.').waitFor();
		await page.getByText(/it should be number 4 and is 5/).waitFor();
	}));
