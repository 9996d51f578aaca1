// Probes and runbooks, clients and their rules, rooms.

import assert from 'node:assert/strict';
import { mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { after, before, test } from 'node:test';
import { until } from './agent.mjs';
import { enter, inBrowser, isAccessible, visit } from './browser.mjs';
import { startHouse } from './house.mjs';

let house;
let hub;

/** A runbook that finds the same on every machine. */
const RUNBOOK = `category = "census"
description = "How large a machine is"

[[steps]]
probe = "system.cpu.usage"

[[thresholds]]
probe = "system.cpu.usage"
path = "cpuCount"
op = ">="
levels = [{ severity = "warning", value = 1 }]
title = "It has {cpuCount} processors"
remediation = "Use them."
`;
const folder = mkdtempSync(join(tmpdir(), 'convoke-runbooks-'));

before(async () => {
	writeFileSync(join(folder, 'census.toml'), RUNBOOK);
	house = await startHouse({ isReal: true, settings: [`sonde.runbook_dir=${folder}`] });
	hub = house.hub;
	await until(async () => (await hub.api('GET', '/api/agents/this-machine/tools')).tools.some(({ probe }) => probe), 'its probes are known');
});
after(async () => {
	await house?.stop();
	rmSync(folder, { recursive: true, force: true });
});

test('a probe is run where a query says, and held against last time', () =>
	inBrowser(async (page) => {
		await enter(page, hub, 'anna', '/probes?way=probe&q=id%3Athis-*');
		await page.getByText(/1 machine that is online/).waitFor();
		await page.getByRole('combobox', { name: 'Tool' }).selectOption('system.disk.usage');
		await page.getByRole('button', { name: 'Ask 1 machine' }).click();
		const row = page.getByRole('listitem').filter({ hasText: 'this-machine' }).last();
		await row.getByText('answered', { exact: true }).waitFor();
		assert.equal(await row.getByText('last time').count(), 0);
		await page.getByRole('button', { name: 'Ask 1 machine' }).click();
		await row.getByText(/last time/).first().waitFor();
		await row.locator('summary').click();
		await page.getByRole('region', { name: 'what this-machine answered', exact: true }).waitFor();
	}));

test('a runbook shows its findings and what each probe gave', () =>
	inBrowser(async (page) => {
		const { runbooks } = await hub.api('GET', '/api/v1/runbooks');
		assert.ok(runbooks.length > 0);
		await enter(page, hub, 'anna', '/probes?q=id%3Athis-*');
		await page.getByRole('combobox', { name: 'Runbook' }).selectOption(runbooks[0].category);
		await page.getByRole('button', { name: 'Run on 1 machine' }).click();
		await page.getByText('1 of 1 done').waitFor();
		await page.getByText(/probes succeeded|not found|lacks|failed/).first().waitFor();
	}));

test('what a runbook found is on Home, with the run behind it, and held against the last one in another browser', async () => {
	const run = async (page) => {
		await page.getByRole('combobox', { name: 'Runbook' }).selectOption('census');
		await page.getByRole('button', { name: 'Run on 1 machine' }).click();
		await page.getByText('1 of 1 done').waitFor();
	};
	await inBrowser(async (page) => {
		await enter(page, hub, 'anna', '/probes?q=id%3Athis-*');
		await run(page);
		assert.equal(await page.getByText('last time').count(), 0);
		await visit(page, '/');
		await page.getByRole('link', { name: /It has \d+ processors on this-machine/ }).click();
		await page.getByRole('heading', { name: 'Census on this-machine' }).waitFor();
		await page.getByText('Use them.').waitFor();
		await page.getByText('system.cpu.usage', { exact: true }).click();
		await page.getByRole('region', { name: 'what system.cpu.usage gave' }).waitFor();
		await isAccessible(page, 'a run');
	});
	await inBrowser(async (page) => {
		await enter(page, hub, 'ben', '/probes?q=id%3Athis-*');
		await run(page);
		await page.getByText(/(as|different from) last time/).waitFor();
		await page.getByRole('listitem').filter({ hasText: 'this-machine' }).last().locator('summary').click();
		await page.getByRole('link', { name: 'This run, and those before it' }).click();
		await page.getByText(/the run before,/).waitFor();
		assert.equal(await page.getByRole('heading', { name: 'Runs that are kept' }).locator('..').getByRole('listitem').count(), 2);
	});
	await inBrowser(async (page) => {
		await enter(page, hub, 'vera', '/');
		await page.getByRole('link', { name: /It has \d+ processors on this-machine/ }).click();
		await page.getByText(/is shown to whoever asked for the run/).waitFor();
		assert.equal(await page.getByText('system.cpu.usage').count(), 0);
	});
});

test('a client is allowed, a rule made and tried out', () =>
	inBrowser(async (page) => {
		await enter(page, hub, 'anna', '/clients');
		await page.getByLabel('Let a client pair').fill('lamp');
		await page.getByRole('button', { name: 'Allow it' }).click();
		await page.getByRole('cell', { name: 'lamp', exact: true }).waitFor();
		await page.getByRole('link', { name: 'Rules' }).click();
		await page.getByLabel('Name').fill('light');
		await page.getByLabel('Its messages go').selectOption('clients');
		await page.getByLabel('Which clients').fill('lamp');
		await page.getByRole('button', { name: 'Put it into force' }).click();
		await page.getByText('to lamp').waitFor();
		await page.getByLabel('Rule', { exact: true }).fill('light');
		await page.getByRole('textbox', { name: 'Message' }).fill('on');
		await page.getByRole('button', { name: 'Try it' }).click();
		await page.getByText('It goes to lamp').waitFor();
		await page.getByRole('button', { name: 'Remove light' }).click();
		await page.getByRole('button', { name: 'Remove it' }).click();
		await page.getByRole('button', { name: 'Remove light' }).waitFor({ state: 'detached' });
	}));

test('a room is made, somebody invited, and the room removed', () =>
	inBrowser(async (page) => {
		await enter(page, hub, 'anna', '/rooms');
		await page.getByLabel('Name').fill('war-room');
		await page.getByRole('button', { name: 'Make it' }).click();
		await page.getByRole('link', { name: 'Look at it' }).click();
		await page.getByRole('heading', { name: 'war-room' }).waitFor();
		await page.getByLabel('Who is invited').fill('ben');
		await page.getByRole('button', { name: 'Make an invite link' }).click();
		await page.getByRole('region', { name: 'Invite link' }).waitFor();
		await page.getByRole('button', { name: 'Remove this room' }).click();
		await page.getByRole('dialog').getByLabel(/Type/).fill('war-room');
		await page.getByRole('button', { name: 'Remove it' }).click();
		await page.getByRole('heading', { name: 'Rooms', level: 1 }).waitFor();
		assert.equal(await page.getByText('war-room').count(), 0);
		await visit(page, '/rooms/standup');
		await page.getByText('Nobody yet').waitFor();
	}));

test('a viewer looks and is offered nothing else', () =>
	inBrowser(async (page) => {
		await enter(page, hub, 'vera', '/clients');
		await page.getByRole('cell', { name: 'build-bot', exact: true }).waitFor();
		assert.equal(await page.getByRole('button', { name: 'Allow it' }).count(), 0);
		await visit(page, '/clients/rules');
		await page.getByText('into the inbox').first().waitFor();
		assert.equal(await page.getByRole('button', { name: 'Put it into force' }).count(), 0);
		await visit(page, '/rooms');
		await page.getByText('standup').waitFor();
		assert.equal(await page.getByRole('button', { name: 'Make it' }).count(), 0);
	}));

test('an assistant’s page says what it may and did, and pauses it', () =>
	inBrowser(async (page) => {
		await enter(page, hub, 'anna', '/assistants');
		await page.getByRole('link', { name: /claude/ }).click();
		await page.getByRole('heading', { name: 'claude' }).waitFor();
		await page.getByText('Nothing of it waits for a person.').waitFor();
		await page.getByRole('button', { name: 'Pause it' }).click();
		await page.getByText('Paused.').waitFor();
		await page.getByRole('button', { name: 'Let it go on' }).click();
		await page.getByRole('button', { name: 'Pause it' }).waitFor();
	}));

test('a confirm rule and a deny rule are put into force and removed', () =>
	inBrowser(async (page) => {
		await enter(page, hub, 'anna', '/policy');
		await page.getByText('changes', { exact: true }).waitFor();
		await page.getByLabel('Name').fill('prod-needs-two');
		await page.getByLabel(/Only machines with these tags/).fill('prod');
		await page.getByLabel(/only a second person/).check();
		await page.getByRole('button', { name: 'Put it into force' }).click();
		await page.getByText(/tag prod: needs a second person’s yes/).waitFor();
		await page.getByRole('button', { name: 'Remove prod-needs-two' }).click();
		await page.getByRole('button', { name: 'Remove it' }).click();
		await page.getByText(/tag prod: needs/).first().waitFor({ state: 'detached' });
		await page.getByRole('link', { name: 'Never allowed' }).click();
		await page.getByLabel('Name').fill('no-prune');
		await page.getByLabel('Pattern').fill('docker\\s+system\\s+prune');
		await page.getByLabel('Why').fill('it removes volumes');
		await page.getByRole('button', { name: 'Put it into force' }).click();
		await page.getByRole('button', { name: 'Remove no-prune' }).waitFor();
		await assert.rejects(
			(async () => {
				const reply = await hub.api('POST', '/api/agents/desk/call', { tool: 'shell_exec', args: { command: 'docker system prune -f' } });
				assert.ok(reply.ok, reply.error?.code);
			})(),
			/blocked/,
		);
		await visit(page, '/policy/who');
		await page.getByRole('row', { name: /claude/ }).getByText('a person is asked').first().waitFor();
		assert.equal(await page.getByRole('row', { name: /vera/ }).getByText('no', { exact: true }).count(), 2);
	}));

test('policy is tried on a call that nobody makes, and on those of the past', () =>
	inBrowser(async (page) => {
		await hub.api('POST', '/api/agents/desk/call', { tool: 'shell_exec', args: { command: 'systemctl restart nginx' } });
		await enter(page, hub, 'anna', '/policy/try');
		await page.getByLabel('Machine').fill('desk');
		await page.getByLabel(/As if asked by/).fill('claude');
		await page.getByRole('combobox', { name: 'Tool' }).selectOption('shell_exec');
		await page.getByRole('textbox', { name: 'command' }).fill('reboot');
		await page.getByRole('button', { name: 'What would happen?' }).click();
		await page.getByText('It would wait for a person’s yes.').waitFor();
		await page.getByLabel(/As if asked by/).fill('vera');
		await page.getByRole('button', { name: 'What would happen?' }).click();
		await page.getByText('It would be refused: no right to it.').waitFor();
		await page.getByRole('link', { name: 'Never allowed' }).click();
		await page.getByLabel('Pattern').fill('systemctl\\s+restart');
		await page.getByRole('button', { name: 'Try it on the last 30 days' }).click();
		await page.getByText(/It would have refused \d+ call/).waitFor();
		await page.getByRole('link', { name: 'shell_exec on desk' }).waitFor();
	}));

test('anything is gone to by a few letters', () =>
	inBrowser(async (page) => {
		await enter(page, hub, 'anna', '/');
		await page.keyboard.press('Control+k');
		const box = page.getByRole('combobox', { name: 'Go to' });
		await box.fill('desk logs');
		await page.getByRole('option', { name: /desk logs/ }).waitFor();
		await isAccessible(page, 'the palette');
		await page.keyboard.press('Enter');
		await page.getByLabel('Search the messages').waitFor();
		assert.equal(new URL(page.url()).pathname, '/machines/desk/logs');
		await page.keyboard.press('Control+k');
		await box.fill('desk fs_se');
		await page.getByRole('option', { name: /desk fs_search/ }).click();
		await page.getByLabel('pattern').waitFor();
		for (const [text, option] of [['standup', /standup/], ['claude', /claude.*Assistant/], ['runbook cen', /Runbook census/], ['backup', /Make a backup/], ['confirm', /Confirm rules/]]) {
			await page.keyboard.press('Control+k');
			await box.fill(text);
			await page.getByRole('option', { name: option }).waitFor();
			await page.keyboard.press('Escape');
		}
		await page.keyboard.press('Control+k');
		await box.fill('dark');
		await page.getByRole('option', { name: /Dark colours/ }).waitFor();
		await page.keyboard.press('Enter');
		await page.waitForFunction(() => document.documentElement.dataset.theme === 'dark');
		await page.keyboard.press('Control+k');
		await box.fill('tok');
		await page.keyboard.press('Escape');
		await box.waitFor({ state: 'hidden' });
	}));
