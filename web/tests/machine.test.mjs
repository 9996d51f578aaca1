// A machine's page: every part of it, live.

import assert from 'node:assert/strict';
import { mkdtempSync, readFileSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { after, before, test } from 'node:test';
import { enter, inBrowser, isHarmless, picture, visit } from './browser.mjs';
import { HOSTILE, snapshot, startHouse } from './house.mjs';

let house;
let hub;

before(async () => {
	house = await startHouse({ isReal: true });
	hub = house.hub;
});
after(() => house?.stop());

test('telemetry and log lines are on the screen as they come', () =>
	inBrowser(async (page) => {
		await enter(page, hub, 'anna', '/machines/desk?section=memory');
		await page.getByText('61% used').first().waitFor();
		await page.getByRole('img', { name: /memory: percent used/ }).waitFor();
		await page.getByRole('button', { name: '30 days' }).click();
		await page.getByText('one value in 2.5 h').waitFor();
		await page.getByRole('img', { name: /Verdicts since/ }).waitFor();
		await page.getByRole('button', { name: '24 hours' }).click();
		house.desk.telemetry(snapshot({ memory: 97 }));
		await page.getByText('97% used').first().waitFor();
		await page.getByRole('button', { name: /critical.*memory/i }).waitFor();
		await page.getByRole('link', { name: 'Logs' }).click();
		await page.getByText('the disk is slow').waitFor();
		house.desk.log('error', 'out of paper');
		await page.getByText('out of paper').waitFor();
		await page.getByLabel('Search the messages').fill('paper');
		await page.getByText('the disk is slow').waitFor({ state: 'hidden' });
		await page.getByText('out of paper').waitFor();
		house.desk.log('info', 'nothing to see');
		house.desk.log('info', 'PAPER is back');
		await page.getByText('PAPER is back').waitFor();
		assert.equal(await page.getByText('nothing to see').count(), 0);
	}));

test('a file is copied to a machine and back', () =>
	inBrowser(async (page) => {
		const folder = mkdtempSync(join(tmpdir(), 'convoke-copy-'));
		try {
			const there = `/machines/this-machine/files?path=${encodeURIComponent(folder)}`;
			await enter(page, hub, 'anna', there);
			await page.getByText('This folder is empty').waitFor();
			await page.getByLabel('Put a file of yours here').setInputFiles({ name: 'note.txt', mimeType: 'text/plain', buffer: Buffer.from('hello, machine\n') });
			await page.getByRole('button', { name: 'Upload it' }).click();
			await page.getByRole('link', { name: 'note.txt' }).click();
			assert.equal(readFileSync(join(folder, 'note.txt'), 'utf8'), 'hello, machine\n');
			await page.getByText('hello, machine').waitFor();
			const coming = page.waitForEvent('download');
			await page.getByRole('button', { name: 'Download it' }).click();
			const file = await coming;
			assert.equal(file.suggestedFilename(), 'note.txt');
			assert.equal(readFileSync(await file.path(), 'utf8'), 'hello, machine\n');
			await visit(page, `/machines/this-machine/files?path=%2Fetc&file=${encodeURIComponent('/etc/shadow')}`);
			await page.getByRole('button', { name: 'Download it' }).click();
			await page.getByRole('alert').first().waitFor();
		} finally {
			rmSync(folder, { recursive: true, force: true });
		}
	}));

test('processes, services, files and the screen', () =>
	inBrowser(async (page) => {
		await enter(page, hub, 'anna', '/machines/desk/processes');
		await page.getByRole('cell', { name: 'postgres' }).waitFor();
		const first = () => page.locator('tbody tr').first().textContent();
		assert.match((await first()) ?? '', /postgres/, 'the busiest first');
		await page.getByRole('button', { name: 'Name' }).click();
		assert.match((await first()) ?? '', /node/);
		await page.getByLabel('Search Processes').fill('systemd');
		await page.getByText('1 of 3 processes').waitFor();
		await page.getByRole('link', { name: 'Services' }).click();
		await page.getByRole('cell', { name: 'cups.service' }).waitFor();
		await page.getByRole('link', { name: 'Files' }).click();
		await page.getByRole('link', { name: 'etc' }).click();
		await page.getByRole('link', { name: 'motd' }).click();
		await page.getByText('this is /etc/motd').waitFor();
		await page.goBack();
		await page.getByLabel('Find files below this folder').fill('motd');
		await page.getByRole('button', { name: 'Find' }).click();
		await page.getByRole('link', { name: '/etc/motd' }).waitFor();
		await page.getByRole('link', { name: 'Screen' }).click();
		await page.getByRole('button', { name: 'Take a picture' }).click();
		await page.getByRole('img', { name: 'The screen of desk' }).waitFor();
	}));

test('each line of the terminal is a call of its own, with its record', () =>
	inBrowser(async (page) => {
		await enter(page, hub, 'anna', '/machines/desk/terminal');
		const line = page.getByLabel('A line to run on desk');
		await line.fill('uname -a');
		await line.press('Enter');
		await page.getByText('uname -a: done').waitFor();
		await page.getByText('exit code 0').waitFor();
		await line.press('ArrowUp');
		assert.equal(await line.inputValue(), 'uname -a');
		await page.getByRole('link', { name: 'its record' }).click();
		await page.getByRole('heading', { name: 'shell_exec on desk' }).waitFor();
		await page.getByText('Asked by').waitFor();
	}));

test('a tool is a form made from its schema, on a real machine, too', () =>
	inBrowser(async (page) => {
		await enter(page, hub, 'anna', '/machines/this-machine/tools');
		await page.getByRole('combobox', { name: 'Tool' }).selectOption('fs_list');
		await page.getByLabel('path').fill('/');
		await page.getByRole('button', { name: 'Call it' }).click();
		await page.getByText(/"is_dir": true/).first().waitFor();
		await page.getByRole('combobox', { name: 'Tool' }).selectOption('system.disk.usage');
		await page.getByRole('button', { name: 'Call it' }).click();
		await page.getByRole('heading', { name: /What system.disk.usage gave/ }).waitFor();
		await page.getByRole('link', { name: 'its record' }).waitFor();
		await visit(page, '/machines/this-machine/terminal');
		const line = page.getByLabel('A line to run on this-machine');
		await line.fill('echo $((6 * 7))');
		await line.press('Enter');
		await page.getByRole('region', { name: 'printed by this-machine' }).filter({ hasText: '42' }).waitFor();
		await picture(page, 'terminal-1280');
	}));

test('tags, keys and removing, with what it destroys said first', () =>
	inBrowser(async (page) => {
		await hub.api('POST', '/api/agents/old-pc/token');
		await enter(page, hub, 'anna', '/machines/desk/manage');
		await page.getByLabel('Another tag').fill('kitchen');
		await page.getByRole('button', { name: 'Add', exact: true }).click();
		await page.getByRole('button', { name: 'Remove the tag kitchen' }).waitFor();
		assert.deepEqual((await hub.api('GET', '/api/agents/desk')).tags, ['kitchen', 'linux', 'office']);
		await visit(page, '/machines/old-pc/manage');
		await page.getByRole('button', { name: 'Remove this machine' }).click();
		const dialog = page.getByRole('dialog');
		assert.ok(await dialog.getByRole('button', { name: 'Remove it' }).isDisabled());
		await dialog.getByLabel(/Type/).fill('old-pc');
		await dialog.getByRole('button', { name: 'Remove it' }).click();
		await page.getByRole('heading', { name: 'Machines' }).waitFor();
		await assert.rejects(hub.api('GET', '/api/agents/old-pc'));
	}));

test('a viewer is offered what viewers may do', () =>
	inBrowser(async (page) => {
		await enter(page, hub, 'vera', '/machines/desk');
		await page.getByRole('link', { name: 'Processes' }).waitFor();
		assert.equal(await page.getByRole('link', { name: 'Terminal' }).count(), 0);
		await visit(page, '/machines/desk/manage');
		await page.getByRole('heading', { name: 'Kill switch' }).waitFor();
		assert.equal(await page.getByRole('button', { name: 'Remove this machine' }).count(), 0);
		await visit(page, '/machines/desk/files?path=%2Fetc&file=%2Fetc%2Fmotd');
		await page.getByRole('alert').waitFor();
	}));

test('whatever a machine says stays text, everywhere', () =>
	inBrowser(async (page) => {
		await enter(page, hub, 'anna', '/machines/evil');
		for (const part of ['', '/processes', '/services', '/logs', '/files', '/files?file=%2Fx', '/journal', '/manage']) {
			await visit(page, `/machines/evil${part}`);
			await page.getByText('⟨U+202E⟩').first().waitFor();
			await isHarmless(page, `the part ${part}`);
		}
		await visit(page, '/machines/evil/terminal');
		await page.getByLabel('A line to run on evil').fill(HOSTILE.replaceAll('\n', ' '));
		await page.getByRole('button', { name: 'Run' }).click();
		await page.getByText('exit code 1').waitFor();
		await isHarmless(page, 'the terminal');
		await visit(page, '/machines/evil/screen');
		await page.getByRole('button', { name: 'Take a picture' }).click();
		await page.getByText('What came back is no picture.').waitFor();
		await isHarmless(page, 'the screen');
	}));
