// The list of machines, and the home page above it.

import assert from 'node:assert/strict';
import { readFileSync } from 'node:fs';
import { after, before, test } from 'node:test';
import { joinMachine } from './agent.mjs';
import { enter, inBrowser, isAccessible, visit } from './browser.mjs';
import { snapshot, startHouse } from './house.mjs';

let house;
let hub;

before(async () => {
	house = await startHouse({ machines: 300 });
	hub = house.hub;
});
after(() => house?.stop());

test('hundreds of rows, found by a query that is in the address', () =>
	inBrowser(async (page) => {
		await enter(page, hub, 'anna', '/machines');
		await page.getByText('302 machines').waitFor();
		const drawn = await page.getByRole('row').count();
		assert.ok(drawn < 80, `only what is in view is drawn, not ${drawn} rows`);
		await page.getByLabel('Find machines').fill('tag:office OR id:sim-0001*');
		await page.getByText('11 of 302 machines').waitFor();
		assert.equal(new URL(page.url()).searchParams.get('q'), 'tag:office OR id:sim-0001*');
		const api = await hub.api('GET', `/api/agents?query=${encodeURIComponent('tag:office OR id:sim-0001*')}`);
		assert.equal(api.agents.length, 11, 'the hub finds the same');
		await page.getByLabel('Find machines').fill('colour:red');
		await page.getByText(/`colour` is no field/).waitFor();
		await page.getByRole('link', { name: 'Offline' }).click();
		await page.getByText('No machine fits').waitFor();
		await page.goBack();
		await page.goto(`${hub.http}/machines?q=tag%3Aoffice&sort=-health&columns=state,tags`);
		await page.getByText('1 of 302 machines').waitFor();
		await page.getByRole('columnheader', { name: 'Tags' }).waitFor();
		assert.equal(await page.getByRole('columnheader', { name: 'Version' }).count(), 0);
	}));

test('what happens to a machine is in its row', () =>
	inBrowser(async (page) => {
		await enter(page, hub, 'anna', '/machines?q=id%3Aa-*');
		await page.getByText('No machine fits').waitFor();
		const machine = await joinMachine(hub, 'a-new-one');
		await page.getByRole('row', { name: /a-new-one/ }).getByText('online').waitFor();
		machine.telemetry(snapshot({ disk: 99 }));
		await page.getByRole('row', { name: /a-new-one/ }).getByText('critical').waitFor();
		await machine.leave();
		await page.getByRole('row', { name: /a-new-one/ }).getByText('offline').waitFor();
	}));

test('something is done to many, with what it reaches shown before and how it went after', () =>
	inBrowser(async (page) => {
		await enter(page, hub, 'anna', '/machines?q=id%3Adesk%20OR%20id%3Aevil');
		await page.getByLabel('Choose desk').check();
		await page.getByLabel('Choose evil').check();
		await page.getByRole('button', { name: 'Do something with them' }).click();
		const dialog = page.getByRole('dialog');
		await dialog.getByRole('combobox', { name: 'Tool' }).selectOption('shell_exec');
		await dialog.getByRole('textbox', { name: 'command' }).fill('true');
		await dialog.getByRole('button', { name: 'Choose this' }).click();
		await dialog.getByText('shell_exec on 2 machines').waitFor();
		await dialog.getByText(/It changes the machine/).waitFor();
		await isAccessible(page, 'the dialog for many');
		await dialog.getByRole('button', { name: 'Do it on 2 machines' }).click();
		await dialog.getByText('2 of 2 done').waitFor();
		await dialog.getByLabel('What to do').selectOption('tag');
		await dialog.getByLabel('Tag', { exact: true }).fill('both');
		await dialog.getByRole('button', { name: 'Do it on 2 machines' }).click();
		await dialog.getByText('2 of 2 done').waitFor();
		assert.equal((await hub.api('GET', '/api/agents?tag=both')).agents.length, 2);
	}));

test('the list is saved as a table in which nothing is a formula', () =>
	inBrowser(async (page) => {
		const odd = await joinMachine(hub, 'odd', { meta: { hostname: '=cmd|calc' } });
		await enter(page, hub, 'anna', '/machines?q=id%3Aodd&columns=state,host');
		await page.getByRole('row', { name: /odd/ }).waitFor();
		const [download] = await Promise.all([page.waitForEvent('download'), page.getByRole('button', { name: 'Export CSV' }).click()]);
		const [head, line] = readFileSync(await download.path(), 'utf8').split('\n');
		assert.equal(head, 'id,state,host');
		assert.equal(line, `"odd","online","'=cmd|calc"`);
		await odd.leave();
	}));

test('home shows what waits and what is not well, and follows', () =>
	inBrowser(async (page) => {
		await enter(page, hub, 'anna', '/');
		await page.getByText('Nothing waits for you').waitFor();
		await hub.api('POST', '/api/agents/desk/call', { tool: 'net_dns_flush', args: {} }, house.script);
		await page.getByRole('link', { name: /Approval net_dns_flush on desk/ }).waitFor();
		await page.getByRole('link', { name: /Approvals 1 waiting/ }).waitFor();
		await page.getByText(/on \d+ machines/).first().waitFor();
		await page.getByRole('img', { name: /^Health of the fleet over 3\d days; today/ }).waitFor();
		await page.getByRole('heading', { name: 'First steps' }).waitFor();
		await page.getByRole('button', { name: 'Do not show this again' }).click();
		await page.getByRole('heading', { name: 'First steps' }).waitFor({ state: 'hidden' });
		await page.getByRole('link', { name: /critical/ }).click();
		await page.getByRole('row', { name: /evil/ }).waitFor();
		await visit(page, '/');
		await page.getByRole('heading', { name: 'What changed' }).waitFor();
		await page.getByRole('link', { name: 'net_dns_flush on desk', exact: true }).first().waitFor();
	}));

test('the page is used with the keyboard alone', () =>
	inBrowser(async (page) => {
		await enter(page, hub, 'anna', '/');
		await page.keyboard.press('Tab');
		await page.keyboard.press('Enter');
		assert.equal(await page.evaluate(() => document.activeElement?.id), 'main', 'the first link goes to the content');
		await page.keyboard.press('g');
		await page.keyboard.press('m');
		await page.getByRole('heading', { name: 'Machines' }).waitFor();
		await page.keyboard.press('/');
		await page.keyboard.type('desk');
		await page.getByText('1 of').waitFor();
		await page.getByRole('link', { name: 'desk' }).focus();
		await page.keyboard.press('Enter');
		await page.getByRole('heading', { name: 'desk' }).waitFor();
		await page.keyboard.press('?');
		await page.getByRole('dialog', { name: 'Keys' }).waitFor();
		await page.keyboard.press('Escape');
		await page.getByRole('dialog', { name: 'Keys' }).waitFor({ state: 'hidden' });
	}));
