// The room page in a room on the mesh: two of our pages, one browser with the stock library and nothing of ours, and an
// agent in Rust.

import assert from 'node:assert/strict';
import { after, before, test } from 'node:test';
import { convoke, startHub } from '../scripts/hub.mjs';
import { startAgent } from './agents.mjs';
import { enter, inBrowser, isAccessible, PASSWORD, picture } from './browser.mjs';
import { equip } from './participant.mjs';
import { come, inBrowsers, isIn, saidIn, saysUntilHeard } from './room.mjs';

let hub;

before(async () => {
	hub = await startHub();
	await hub.api('POST', '/api/users', { name: 'anna', role: 'admin', scopes: {}, password: PASSWORD });
});
after(() => hub?.stop());

const verb = async (...args) => JSON.parse(await convoke(hub, '--json', 'room', ...args));
const until = (page, look, arg) => page.waitForFunction(look, arg, { timeout: 20_000 });
const heardBy = (page, text) => page.getByRole('log').getByText(text, { exact: true }).waitFor({ timeout: 20_000 });

/** Waits until a page is connected with so many others: what it says reaches them all. */
const sees = (page, name) => page.getByRole('listitem').filter({ hasText: name }).waitFor({ timeout: 20_000 });

test('two pages, a stock peer and an agent talk, and a host decides what the agent may', () =>
	inBrowsers(async (anna, bert, context) => {
		await verb('create', 'standup', '--open', '--transport', 'mesh');
		await enter(anna, hub, 'anna', '/rooms');
		await come(anna, hub, 'standup', 'Anna');
		await come(bert, hub, 'standup', 'Bert');
		const stock = await context.newPage();
		await equip(stock, hub);
		await stock.evaluate(() => takePart({ room: 'standup', name: 'Carla' }));
		const agent = await startAgent(hub, 'standup', 'mesh', '--guest', '--agent', '--name', 'scribe', '--backend', 'Mistral');
		try {
			await agent.hears('in the room as scribe (agent');
			for (const page of [anna, bert]) for (const name of ['Carla', 'scribe']) await sees(page, name);
			await until(stock, () => me.roster?.members.length === 5 && me.links.size === 4);
			await bert.getByText('What it sees leaves the room: it is sent to Mistral.').waitFor();
			await saidIn(anna, 'good morning');
			await heardBy(bert, 'good morning');
			await until(stock, () => me.heard.some(({ data }) => data.text === 'good morning'));
			await agent.hears('good morning');
			await stock.evaluate(() => sayToAll({ k: 'chat', text: 'from the stock library' }));
			for (const page of [anna, bert]) await heardBy(page, 'from the stock library');

			agent.say('may I?');
			await agent.hears('send-chat');
			const scribe = anna.getByRole('listitem').filter({ hasText: 'scribe' });
			await scribe.getByLabel('Write').check();
			await saysUntilHeard(agent, 'thank you', anna);
			// What bert's page may show it learns by itself, perhaps a moment after anna's.
			await saysUntilHeard(agent, 'thank you', bert);
			await scribe.getByRole('button', { name: 'Revoke all of scribe' }).click();
			await bert.getByText('May nothing.').waitFor();
			await saidIn(bert, 'for people alone');
			await heardBy(anna, 'for people alone');
			await until(stock, () => me.heard.some(({ data }) => data.text === 'for people alone'));
			assert.ok(!agent.said.some((line) => line.includes('for people alone')));
			await isAccessible(anna, 'a mesh room');
			await picture(anna, 'room-mesh-1280');

			// The host's own command.
			await scribe.getByRole('button', { name: 'Remove scribe' }).click();
			await anna.getByRole('dialog').getByRole('button', { name: 'Remove them' }).click();
			await agent.hears('removed from the room');
			await bert.getByText('scribe left').waitFor();
		} finally {
			await agent.stop();
		}
	}));

test('an agent that was tampered with is heard by nobody', () =>
	inBrowsers(async (anna, other) => {
		await verb('create', 'tampered', '--open', '--transport', 'mesh');
		await enter(anna, hub, 'anna', '/rooms');
		await come(anna, hub, 'tampered', 'Anna');
		await equip(other, hub);
		await other.evaluate(() => takePart({ room: 'tampered', name: 'bad-bot', meta: { role: 'agent' } }));
		await sees(anna, 'bad-bot');
		await until(other, () => me.links.size === 2);
		const say = () =>
			other.evaluate(() => {
				sayToAll({ k: 'chat', text: 'I say it anyway' });
				sayToAll({ k: 'app', data: { __kib_agent: 'view', view: { forged: true } } });
				sayToAll({ k: 'caps', grants: { [me.id]: { perceive: [], act: ['send-chat'] } } });
				sayToAll({ k: 'chat', text: 'and again' });
			});
		await say();
		await anna.getByRole('button', { name: 'Log' }).click();
		await anna.getByRole('list', { name: 'Log of the room' }).getByText('chat, dropped here').first().waitFor();
		await say();
		await anna.getByRole('button', { name: 'App' }).click();
		await anna.getByText('No application shows anything').waitFor();
		assert.equal(await anna.getByRole('log').getByText('I say it anyway').count(), 0);
		assert.equal(await anna.getByRole('log').getByText('and again').count(), 0);
	}));

test('when the hub is killed, people who are connected stay so, and all are there again once it is back', () =>
	inBrowsers(async (anna, bert) => {
		await verb('create', 'lasting', '--open', '--transport', 'mesh');
		await come(anna, hub, 'lasting', 'Anna');
		await come(bert, hub, 'lasting', 'Bert');
		await sees(anna, 'Bert');
		await saidIn(anna, 'before');
		await heardBy(bert, 'before');
		await hub.kill();
		await hub.start();
		for (const [page, name] of [[anna, 'Bert'], [bert, 'Anna']]) {
			await isIn(page, 40_000);
			await page.getByRole('listitem').filter({ hasText: name }).waitFor({ timeout: 40_000 });
		}
		for (let tries = 0; ; tries++) {
			await saidIn(bert, `after ${tries}`);
			if (await anna.getByRole('log').getByText(/^after/).first().waitFor({ timeout: 1_500 }).then(() => true, () => false)) break;
			assert.ok(tries < 15, 'they do not hear each other any more');
		}
	}));

test('a signed-in person enters a closed mesh room by a pass of their own', () =>
	inBrowser(async (page) => {
		await verb('create', 'board', '--transport', 'mesh');
		await enter(page, hub, 'anna', '/rooms');
		await page.goto(`${hub.http}/room/board`);
		await page.getByRole('button', { name: 'Come in' }).click();
		await isIn(page, 20_000);
		await page.getByText('locked: nobody new comes in').waitFor();
	}));

test('one of each in a bridged room: two pages, a stock peer, an agent on the mesh and one over the relay', () =>
	inBrowsers(async (anna, bert, context) => {
		await verb('create', 'bridged', '--open', '--transport', 'mesh');
		await enter(anna, hub, 'anna', '/rooms');
		await come(anna, hub, 'bridged', 'Anna');
		await come(bert, hub, 'bridged', 'Bert');
		const stock = await context.newPage();
		await equip(stock, hub);
		await stock.evaluate(() => takePart({ room: 'bridged', name: 'Carla' }));
		const near = await startAgent(hub, 'bridged', 'mesh', '--guest', '--agent', '--name', 'near');
		const far = await startAgent(hub, 'bridged', 'relay', '--guest', '--agent', '--name', 'far');
		try {
			for (const page of [anna, bert]) for (const name of ['Carla', 'near', 'far']) await sees(page, name);
			await bert.getByRole('listitem').filter({ hasText: 'far' }).getByText('through the hub').waitFor();
			await until(stock, () => me.roster?.members.length === 6 && me.links.size === 5);
			await saidIn(anna, 'to near and far');
			await heardBy(bert, 'to near and far');
			for (const agent of [near, far]) await agent.hears('to near and far');
			for (const [agent, name] of [[near, 'near'], [far, 'far']]) {
				await anna.getByRole('listitem').filter({ hasText: name }).getByLabel('Write').check();
				// Connections open one by one.
				for (const page of [anna, bert]) await saysUntilHeard(agent, `hello from ${name}`, page);
				await until(stock, (words) => me.heard.some(({ data }) => (data.data?.text ?? data.text) === words), `hello from ${name}`);
			}
			await anna.getByRole('button', { name: 'Silence far' }).click();
			await bert.getByRole('listitem').filter({ hasText: 'far' }).getByText('silenced').waitFor();
			far.say('said while silenced');
			await saysUntilHeard(near, 'near still speaks', anna);
			assert.equal(await anna.getByText('said while silenced').count(), 0);
		} finally {
			await near.stop();
			await far.stop();
		}
	}));

test('where there is no direct way, a person comes in through the hub', async () => {
	// Datagrams to this address reach nobody.
	const walled = await startHub({ settings: ['rooms.udp_public=127.0.0.1:9'] });
	try {
		await walled.api('POST', '/api/rooms', { name: 'walled', open: true, transport: 'mesh' });
		await inBrowser(async (page) => {
			await page.goto(`${walled.http}/room/walled`);
			await page.getByLabel('Your name').fill('Anna');
			await page.getByRole('button', { name: 'Come in' }).click();
			await page.getByRole('button', { name: 'Come in through the hub' }).click({ timeout: 30_000 });
			await isIn(page);
			await saidIn(page, 'hello');
			await heardBy(page, 'hello');
		});
	} finally {
		await walled.stop();
	}
});
