// Rooms on the mesh, with the stock PeerJS library in a browser and our participant beside it.

import assert from 'node:assert/strict';
import { after, before, test } from 'node:test';
import { convoke, startHub } from '../scripts/hub.mjs';
import { startAgent } from './agents.mjs';
import { inBrowser } from './browser.mjs';
import { equip } from './participant.mjs';

let hub;

before(async () => {
	hub = await startHub();
});
after(() => hub.stop());

const verb = async (...args) => JSON.parse(await convoke(hub, '--json', 'room', ...args));

/** Waits until a function in the page says yes. */
const until = (page, look, arg) => page.waitForFunction(look, arg, { timeout: 20_000 });

test('stock peers find each other through the broker and talk', () =>
	inBrowser(async (page, context) => {
		const other = await context.newPage();
		await equip(page, hub);
		await equip(other, hub);
		const made = await page.evaluate(async () => (globalThis.peer = await openPeer()).id);
		assert.match(made, /^[0-9a-f-]{36}$/);
		await other.evaluate(async () => {
			globalThis.peer = await openPeer('anna');
			globalThis.heard = [];
			peer.on('connection', (link) => link.on('data', (data) => heard.push(data) && link.send(data.length)));
		});
		const answers = await page.evaluate(async () => {
			const link = peer.connect('anna', { reliable: true });
			await new Promise((resolve) => link.on('open', resolve));
			const answers = [];
			const all = new Promise((resolve) => link.on('data', (data) => answers.push(data) === 2 && resolve()));
			link.send('hi');
			link.send('x'.repeat(100_000));
			await all;
			return answers;
		});
		assert.deepEqual(answers, [2, 100_000]);
		assert.equal(await page.evaluate(() => openPeer('anna')), 'unavailable-id');
		const missing = await page.evaluate(
			() => new Promise((resolve) => (peer.on('error', ({ type }) => resolve(type)), peer.connect('nobody'))),
		);
		assert.equal(missing, 'peer-unavailable');
		await other.close();
		await page.evaluate(async () => {
			// An id is free as soon as its holder is gone.
			while (typeof (await openPeer('anna')) === 'string') await new Promise((resolve) => setTimeout(resolve, 100));
		});
	}));

test('the ids of rooms are the hub’s, whatever their transport', () =>
	inBrowser(async (page) => {
		await verb('create', 'on the relay');
		await verb('create', 'on the mesh', '--transport', 'mesh');
		await equip(page, hub);
		for (const id of ['kbz-v1-on-the-relay', 'kbz-v1-on-the-mesh']) {
			assert.equal(await page.evaluate((id) => openPeer(id), id), 'unavailable-id', id);
		}
		const type = await page.evaluate(async () => {
			const peer = await openPeer();
			return new Promise((resolve) => (peer.on('error', ({ type }) => resolve(type)), peer.connect('kbz-v1-on-the-relay')));
		});
		assert.equal(type, 'peer-unavailable', 'a room on the relay has nobody on the mesh');
	}));

test('two browsers and an agent in a mesh room: everyone hears who may speak, and nobody else', () =>
	inBrowser(async (anna, context) => {
		await verb('create', 'standup', '--open', '--transport', 'mesh');
		const bert = await context.newPage();
		for (const page of [anna, bert]) await equip(page, hub);
		const annasId = await anna.evaluate(() => takePart({ room: 'standup', name: 'Anna' }));
		const bertsId = await bert.evaluate(() => takePart({ room: 'standup', name: 'Bert' }));
		const agent = await startAgent(hub, 'standup', 'mesh', '--guest', '--agent', '--name', 'scribe', '--backend', 'Mistral');
		try {
			await agent.hears('in the room as scribe (agent');
			for (const page of [anna, bert]) {
				// The hub, two people, the agent; each connected with all the others.
				await until(page, () => me.roster?.members.length === 4 && me.links.size === 3 && Object.keys(me.caps).length === 4);
			}
			const { roster, caps } = await anna.evaluate(() => ({ roster: me.roster, caps: me.caps }));
			const scribe = roster.members.find(({ name }) => name === 'scribe');
			assert.deepEqual(scribe.meta, { backend: 'Mistral', egress: true, role: 'agent' });
			assert.deepEqual(caps[scribe.id].act, []);
			assert.deepEqual(caps[roster.host].perceive, ['receive-directed'], 'nothing said to all is for the hub');
			assert.deepEqual(caps[annasId].act, ['send-chat', 'speak', 'act']);

			await anna.evaluate(() => sayToAll({ k: 'chat', text: 'good morning' }));
			assert.match(await agent.hears('good morning'), /"name":"Anna"/);
			await until(bert, (id) => me.heard.some(({ from, data }) => from === id && data.text === 'good morning'), annasId);

			agent.say('may I?');
			await agent.hears('send-chat');

			const person = (await verb('show', 'standup')).participants.find(({ name }) => name === 'scribe');
			await verb('grant', 'standup', person.id, '--act', 'send-chat');
			await until(anna, (id) => me.caps[id]?.act.includes('send-chat'), scribe.id);
			// The agent hears of its grant by itself, so it may be refused once more.
			const heardBy = (page, timeout) =>
				page.waitForFunction(
					(id) => me.heard.some(({ from, data }) => from === id && data.k === 'app' && data.data.text === 'thank you'),
					scribe.id,
					{ timeout },
				);
			for (let tries = 0; ; tries++) {
				agent.say('thank you');
				if (await heardBy(anna, 1_000).catch(() => undefined)) break;
				assert.ok(tries < 15, 'the agent was never heard');
			}
			await heardBy(bert, 15_000);

			await verb('revoke', 'standup', person.id);
			await until(bert, (id) => me.caps[id]?.perceive.length === 0, scribe.id);
			await verb('kick', 'standup', person.id);
			await until(anna, () => me.roster.members.length === 3);
			await agent.hears('removed from the room');
			assert.equal(await bert.evaluate(() => me.kicked), false);
			assert.notEqual(annasId, bertsId);
		} finally {
			await agent.stop();
		}
	}));

test('an agent comes in by its key, over whatever connection it makes; a stranger does not', () =>
	inBrowser(async (page) => {
		const key = `${hub.data}/scribe.jwk`;
		const stranger = `${hub.data}/stranger.jwk`;
		await verb('key', 'new', key);
		await verb('key', 'new', stranger);
		await verb('create', 'keys', '--transport', 'mesh', '--agent-key', key);
		const invite = (await verb('invite', 'keys', 'Anna', '--host')).invite;
		await equip(page, hub);
		await page.evaluate((jwt) => takePart({ room: 'keys', name: 'x', jwt }), invite);
		const agent = await startAgent(hub, 'keys', 'mesh', '--key', key, '--name', 'scribe');
		const other = await startAgent(hub, 'keys', 'mesh', '--key', stranger, '--name', 'stranger');
		try {
			await agent.hears('in the room as scribe (agent');
			await other.hears('no valid key');
			await until(page, () => me.roster?.members.some(({ name }) => name === 'scribe') && me.links.size === 2);
			assert.equal(await page.evaluate(() => me.roster.members.find(({ id }) => id === me.id).name), 'Anna');
			// The host's own command, over its own connection.
			await page.evaluate(() => {
				const { id } = me.roster.members.find(({ name }) => name === 'scribe');
				me.authority.send({ t: 'mod', op: 'kick', target: id });
			});
			await agent.hears('removed from the room');
		} finally {
			await agent.stop();
			await other.stop();
		}
	}));

test('when the hub comes back everyone is there again', () =>
	inBrowser(async (page) => {
		await verb('create', 'lasting', '--open', '--transport', 'mesh');
		await hub.kill();
		await hub.start();
		await equip(page, hub);
		await page.evaluate(() => takePart({ room: 'lasting', name: 'Anna' }));
		await until(page, () => me.roster?.members.length === 2 && me.links.size === 1);
	}));
