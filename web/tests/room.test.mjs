// The room page, on the relay: two browsers and an agent, a host's decisions, and a hub that goes and comes back.

import assert from 'node:assert/strict';
import { after, before, test } from 'node:test';
import { convoke, startHub } from '../scripts/hub.mjs';
import { enter, fits, inBrowser, isAccessible, isHarmless, PASSWORD, picture } from './browser.mjs';
import { HOSTILE } from './house.mjs';
import { startAgent } from './agents.mjs';
import { come, inBrowsers, inviteLink, isIn, joinAsApp, saidIn, saysUntilHeard } from './room.mjs';

let hub;

before(async () => {
	hub = await startHub();
	await hub.api('POST', '/api/users', { name: 'anna', role: 'admin', scopes: {}, password: PASSWORD });
	await hub.api('POST', '/api/users', { name: 'vera', role: 'viewer', scopes: {}, password: PASSWORD });
});
after(() => hub?.stop());

const verb = async (...args) => JSON.parse(await convoke(hub, '--json', 'room', ...args));

test('two people and an agent talk, and a host decides what the agent may', () =>
	inBrowsers(async (anna, bert) => {
		await verb('create', 'standup', '--open');
		await enter(anna, hub, 'anna', '/rooms');
		await anna.getByRole('link', { name: 'Open room standup' }).waitFor();
		await come(anna, hub, 'standup', 'Anna');
		await come(bert, hub, 'standup', 'Bert');
		await anna.getByText('came in').waitFor();
		const agent = await startAgent(hub, 'standup', 'relay', '--guest', '--agent', '--name', 'scribe', '--backend', 'Mistral');
		try {
			await agent.hears('in the room as scribe (agent');
			for (const page of [anna, bert]) {
				const scribe = page.getByRole('listitem').filter({ hasText: 'scribe' });
				await scribe.getByText('AI', { exact: true }).waitFor();
				await scribe.getByText('What it sees leaves the room: it is sent to Mistral.').waitFor();
			}
			await saidIn(anna, 'good morning');
			await bert.getByRole('log').getByText('good morning').waitFor();
			await agent.hears('good morning');
			await saidIn(bert, 'hello to you two');
			await anna.getByRole('log').getByText('hello to you two').waitFor();

			// Only to one.
			await anna.getByLabel('To whom').selectOption({ label: 'Only to Bert' });
			await saidIn(anna, 'a secret');
			await bert.getByRole('log').getByText('a secret').waitFor();
			await bert.getByText('only to you').waitFor();
			await anna.getByLabel('To whom').selectOption({ label: 'To everyone' });

			// Refused, granted live, silenced, revoked.
			agent.say('may I?');
			await agent.hears('send-chat');
			await anna.getByRole('button', { name: 'Log' }).click();
			await anna.getByRole('list', { name: 'Log of the room' }).getByText('blocked').waitFor();
			await anna.getByRole('button', { name: /^People/ }).click();
			const scribe = anna.getByRole('listitem').filter({ hasText: 'scribe' });
			await scribe.getByLabel('Write').check();
			await saysUntilHeard(agent, 'thank you', anna);
			await bert.getByRole('log').getByText('thank you').first().waitFor();
			// Held back, and let go on with the grant that it has.
			for (const [hold, held] of [['Silence', 'silenced'], ['Pause', 'paused']]) {
				await scribe.getByRole('button', { name: `${hold} scribe` }).click();
				for (const page of [anna, bert]) await page.getByRole('listitem').filter({ hasText: 'scribe' }).getByText(held, { exact: true }).waitFor();
				assert.ok(await scribe.getByLabel('Write').isChecked(), 'what it was granted stays');
				agent.say(`said while ${held}`);
				if (held === 'paused') await saidIn(anna, 'not for who is paused');
				await scribe.getByRole('button', { name: 'Resume scribe' }).click();
				await saysUntilHeard(agent, `back from ${held}`, anna);
				assert.equal(await bert.getByText(`said while ${held}`).count(), 0);
			}
			assert.ok(!agent.said.some((line) => line.includes('not for who is paused')));
			await scribe.getByLabel('Write').uncheck();
			await bert.getByText('May read the chat, receive messages, see who is here.').waitFor();
			agent.say('and another thing');
			await scribe.getByRole('button', { name: 'Revoke all of scribe' }).click();
			await bert.getByText('May nothing.').waitFor();
			await saidIn(anna, 'this is for people');
			await bert.getByRole('log').getByText('this is for people').waitFor();
			assert.equal(await bert.getByText('and another thing').count(), 0);
			assert.ok(!agent.said.some((line) => line.includes('this is for people')), 'what is withheld does not reach it');
			await picture(anna, 'room-people-1280');
			await isAccessible(anna, 'the room as its host');
			await isAccessible(bert, 'the room as a guest');

			await scribe.getByRole('button', { name: 'Remove scribe' }).click();
			await anna.getByRole('dialog').getByRole('button', { name: 'Remove them' }).click();
			await agent.hears('removed from the room');
			await bert.getByText('scribe left').waitFor();
		} finally {
			await agent.stop();
		}
	}));

test('who waits at the door is let in or turned away, and who is removed is told', () =>
	inBrowsers(async (hana, gil, context) => {
		const made = await verb('create', 'lab', '--lobby');
		await hana.goto(`${hub.http}/room/lab#invite=${made.host_invite}`);
		await hana.getByText('and moderate this room').waitFor();
		assert.equal(new URL(hana.url()).hash, '', 'the invite does not stay in the address');
		await hana.getByRole('button', { name: 'Come in' }).click();
		await isIn(hana);
		/** Each tab of the other browser is another guest. */
		const guest = async (page, name) => {
			await page.goto(await inviteLink(hub, 'lab', name));
			await page.getByRole('button', { name: 'Come in' }).click();
		};
		await guest(gil, 'Gil');
		await gil.getByText('You are at the door.').waitFor();
		await picture(gil, 'room-waiting-1280');
		await hana.getByText('Gil wants to come in').waitFor();
		await isAccessible(hana, 'somebody at the door');
		await hana.getByRole('button', { name: 'Let in Gil' }).click();
		await isIn(gil);
		const theo = await context.newPage();
		await guest(theo, 'Theo');
		await hana.getByRole('button', { name: 'Turn away Theo' }).click();
		await theo.getByRole('heading', { name: 'You were turned away' }).waitFor();
		await isAccessible(theo, 'turned away');
		await theo.getByRole('button', { name: 'Knock again' }).click();
		await theo.getByRole('button', { name: 'Come in' }).click();
		await hana.getByText('Theo wants to come in').waitFor();
		await theo.getByRole('button', { name: 'Cancel' }).click();
		await hana.getByText('Theo wants to come in').waitFor({ state: 'hidden' });

		await hana.getByLabel('locked: nobody new comes in').check();
		const late = await context.newPage();
		await guest(late, 'Lou');
		await late.getByRole('heading', { name: 'The room is locked' }).waitFor();
		await hana.getByRole('button', { name: 'Clear the chat' }).click();
		await gil.getByText('a host cleared what was said').waitFor();
		// A human's grant is behind a fold.
		const row = hana.getByRole('listitem').filter({ hasText: 'Gil' });
		await row.getByText('What they may').click();
		await row.getByLabel('Write').click();
		await gil.getByPlaceholder('You may read here, and not write.').waitFor();

		await row.getByRole('button', { name: 'Remove Gil' }).click();
		await hana.getByRole('dialog').getByRole('button', { name: 'Remove them' }).click();
		await gil.getByRole('heading', { name: 'You were removed' }).waitFor();
		await hub.api('DELETE', '/api/rooms/lab');
		await hana.getByRole('heading', { name: 'The room is gone' }).waitFor();
	}));

test('a closed room asks for an invite, a wrong one does not help, and a viewer only looks', () =>
	inBrowser(async (page) => {
		await verb('create', 'closed');
		await page.goto(`${hub.http}/room/closed`);
		await page.getByText('This room needs an invite.').waitFor();
		await isAccessible(page, 'the door of a closed room');
		await page.goto(`${hub.http}/room/nowhere`);
		await page.getByText('There is no such room.').waitFor();
		const link = await inviteLink(hub, 'closed', 'Gil');
		await page.goto('about:blank');
		await page.goto(link.slice(0, -4) + 'AAAA');
		await page.getByRole('button', { name: 'Come in' }).click();
		await page.getByRole('heading', { name: 'You cannot come in' }).waitFor();
		await page.getByRole('button', { name: 'Without this invite' }).click();
		await page.getByRole('link', { name: 'Sign in' }).click();
		await page.getByLabel('Name').fill('vera');
		await page.getByLabel('Password').fill(PASSWORD);
		await page.getByRole('button', { name: 'Sign in' }).click();
		await page.getByRole('button', { name: 'Come in' }).click();
		await page.getByPlaceholder('You may read here, and not write.').waitFor();
	}));

test('views, schemas and what an agent offers are shown as data, and asked for', () =>
	inBrowser(async (page) => {
		const made = await verb('create', 'board', '--open');
		await page.goto(`${hub.http}/room/board#invite=${made.host_invite}`);
		await page.getByRole('button', { name: 'Come in' }).click();
		await isIn(page);
		const app = await joinAsApp(hub, 'board', { name: 'Whist' });
		const agent = await joinAsApp(hub, 'board', { name: 'helper', meta: { role: 'agent' } });
		try {
			await page.getByRole('listitem').filter({ hasText: 'helper' }).getByLabel('Write').check();
			await agent.hears(({ payload }) => Object.values(payload?.grants ?? {}).some(({ act }) => act.length === 1));
			app.say({ k: 'schema', name: 'whist', version: '2', schema: { seats: 'who sits where', [HOSTILE]: HOSTILE } });
			app.say({ k: 'app', data: { __kib_agent: 'view', view: { turn: 'north', note: HOSTILE } } });
			app.say({ k: 'app', data: { raw: HOSTILE } });
			app.say({ k: 'pay', url: 'javascript:alert(1)', label: HOSTILE });
			agent.say({ k: 'app', data: { __kib_agent: 'view', view: { forged: true } } });
			agent.say({ k: 'schema', name: 'agent-actions', version: '1', schema: { actions: [{ id: 'sum', label: `Sum up ${HOSTILE}`, desc: HOSTILE }] } });
			await page.getByRole('button', { name: /^Sum up/ }).click();
			const asked = await agent.hears(({ payload }) => payload?.data?.kind === 'agent-action@1');
			assert.equal(asked.payload.data.id, 'sum');
			await isHarmless(page, 'people and chat');
			await isAccessible(page, 'an agent that offers something');
			// An action, which the hub brings and an application answers.
			await page.getByRole('listitem').filter({ hasText: 'helper' }).getByLabel('Act', { exact: true }).check();
			await agent.hears(({ payload }) => Object.values(payload?.grants ?? {}).some(({ act }) => act.length === 2));
			agent.say({ k: 'app', data: { __kib_agent: 'act', id: 'a1', action: { play: HOSTILE } } });
			await page.getByText('helper asks the application').waitFor();
			await isHarmless(page, 'an action');
			const { payload } = await app.hears(({ payload }) => payload?.data?.__kib_agent === 'act');
			app.say({ k: 'app', data: { __kib_agent: 'acted', id: payload.data.id, ok: true, result: 'played' } }, 'hub');
			const acted = await agent.hears(({ payload }) => payload?.data?.__kib_agent === 'acted');
			assert.deepEqual([acted.payload.data.id, acted.payload.data.ok], ['a1', true]);
			await page.getByRole('button', { name: 'App' }).click();
			await page.getByText('"turn": "north"').waitFor();
			assert.equal(await page.getByText('forged').count(), 0);
			await page.getByText('Schema whist 2').click();
			await page.getByText('who sits where').waitFor();
			await isHarmless(page, 'views');
			await isAccessible(page, 'views');
			await picture(page, 'room-views-1280');
		} finally {
			app.leave();
			agent.leave();
		}
	}));

test('when the hub is killed and comes back, everybody is there again', () =>
	inBrowser(async (page, context) => {
		await verb('create', 'lasting', '--open');
		const other = await context.newPage();
		await come(page, hub, 'lasting', 'Anna');
		await come(other, hub, 'lasting', 'Bert');
		await hub.kill();
		await page.getByText('Connecting again').waitFor();
		await picture(page, 'room-away-1280');
		await hub.start();
		await isIn(page, 30_000);
		await isIn(other, 30_000);
		await page.getByRole('listitem').filter({ hasText: 'Bert' }).waitFor();
		await saidIn(other, 'here again');
		await page.getByRole('log').getByText('here again').waitFor();
	}));

for (const [width, height, colorScheme] of [
	[360, 740, 'light'],
	[360, 740, 'dark'],
	[1280, 800, 'dark'],
]) {
	test(`a room with hostile names at ${width} px, ${colorScheme}`, () =>
		inBrowser(
			async (page) => {
				const name = `hostile-${width}-${colorScheme}`;
				const made = await verb('create', name, '--open');
				const agent = await startAgent(hub, name, 'relay', '--guest', '--agent', '--name', HOSTILE, '--backend', HOSTILE);
				try {
					await agent.hears('in the room as');
					await page.goto(`${hub.http}/room/${name}#invite=${made.host_invite}`);
					await picture(page, `room-door-${width}-${colorScheme}`);
					await isAccessible(page, 'the door');
					await page.getByRole('button', { name: 'Come in' }).click();
					await isIn(page);
					await saidIn(page, 'Good morning! What is new?');
					await saidIn(page, HOSTILE);
					if (width < 900) await page.getByRole('button', { name: /^People/ }).click();
					await page.getByLabel('Write').check();
					if (width < 900) {
						await isHarmless(page, 'people');
						await fits(page, 'people');
						await isAccessible(page, 'people');
						await picture(page, `room-people-${width}-${colorScheme}`);
						await page.getByRole('button', { name: /^Chat/ }).click();
					}
					await saysUntilHeard(agent, 'The build of 9:41 is out; two tests were skipped.', page);
					agent.say(HOSTILE);
					await page.getByRole('article').filter({ hasText: 'javascript:alert(1)' }).nth(1).waitFor();
					await isHarmless(page, 'chat');
					await fits(page, 'chat');
					await isAccessible(page, 'chat');
					await picture(page, `room-chat-${width}-${colorScheme}`);
					await page.getByRole('button', { name: 'Log' }).click();
					await isHarmless(page, 'log');
					await fits(page, 'log');
					await isAccessible(page, 'log');
					await picture(page, `room-log-${width}-${colorScheme}`);
				} finally {
					await agent.stop();
				}
			},
			{ width, height, colorScheme },
		));
}
