// Sound and pictures between browsers, with Chromium's fake devices: what arrives is read from the received pixels and
// samples, of lanes that are granted and of lanes that are withheld.

import assert from 'node:assert/strict';
import { after, before, test } from 'node:test';
import { convoke, startHub } from '../scripts/hub.mjs';
import { enter, fits, inBrowser, isAccessible, PASSWORD, picture } from './browser.mjs';
import { come, isIn } from './room.mjs';

let hub;

before(async () => {
	hub = await startHub();
	await hub.api('POST', '/api/users', { name: 'anna', role: 'admin', scopes: {}, password: PASSWORD });
});
after(() => hub?.stop());

const verb = async (...args) => JSON.parse(await convoke(hub, '--json', 'room', ...args));

/** Nested browsers, each of its own. */
const browsers = (count, body, pages = []) =>
	pages.length === count ? body(...pages) : inBrowser((page) => browsers(count, body, [...pages, page]));

/** The brightest pixel of what arrives from somebody's lane in the next moment, and how many frames came. */
const seen = (page, lane, name) =>
	page.evaluate(
		async ([lane, name]) => {
			const tile = [...document.querySelectorAll(`[data-lane="${lane}"]`)].find((one) => one.textContent.includes(name));
			const video = tile?.querySelector('video');
			if (!video) return undefined;
			let frames = 0;
			let brightest = 0;
			const canvas = Object.assign(document.createElement('canvas'), { width: 64, height: 36 });
			const paint = canvas.getContext('2d', { willReadFrequently: true });
			const end = performance.now() + 1_200;
			while (performance.now() < end) {
				await Promise.race([new Promise((next) => video.requestVideoFrameCallback(() => (frames++, next()))), new Promise((next) => setTimeout(next, 400))]);
				paint.drawImage(video, 0, 0, 64, 36);
				const { data } = paint.getImageData(0, 0, 64, 36);
				brightest = 0;
				for (let i = 0; i < data.length; i++) if (i % 4 !== 3) brightest = Math.max(brightest, data[i]);
			}
			return { frames, brightest };
		},
		[lane, name],
	);

/** The loudest sample that arrives from anybody in the next moment: the fake microphone beeps once a second. */
const heard = (page) =>
	page.evaluate(async () => {
		const element = document.querySelector('audio');
		if (!element?.srcObject) return undefined;
		const context = new AudioContext();
		await context.resume();
		const analyser = new AnalyserNode(context, { fftSize: 2048 });
		context.createMediaStreamSource(element.srcObject).connect(analyser);
		const samples = new Float32Array(2048);
		let loudest = 0;
		const end = performance.now() + 2_500;
		while (performance.now() < end) {
			analyser.getFloatTimeDomainData(samples);
			for (const sample of samples) loudest = Math.max(loudest, Math.abs(sample));
			await new Promise((next) => setTimeout(next, 20));
		}
		await context.close();
		return loudest;
	});

/** Tries until it is so: what was granted reaches the other end a moment later. */
async function becomes(read, isSo, what) {
	let found;
	for (const end = Date.now() + 20_000; Date.now() < end; ) {
		found = await read();
		if (found !== undefined && isSo(found)) return;
		if (found === undefined) await new Promise((next) => setTimeout(next, 100));
	}
	assert.fail(`${what}: ${JSON.stringify(found)}`);
}

const BLACK = ({ frames, brightest }) => frames > 0 && brightest <= 20;
const BRIGHT = ({ frames, brightest }) => frames > 0 && brightest > 100;
const SILENT = (loudest) => loudest < 0.0005;
const LOUD = (loudest) => loudest > 0.01;

test('what an agent may not see or hear arrives black and silent, and what it may as it is', () =>
	browsers(3, async (anna, bert, agent) => {
		await verb('create', 'call', '--open', '--transport', 'mesh');
		await enter(anna, hub, 'anna', '/rooms');
		await come(anna, hub, 'call', 'Anna');
		await come(bert, hub, 'call', 'Bert');
		await agent.goto(`${hub.http}/room/call?agent=Mistral`);
		await agent.getByLabel('Your name').fill('watcher');
		await agent.getByRole('button', { name: 'Come in' }).click();
		await isIn(agent);
		const watcher = anna.getByRole('listitem').filter({ hasText: 'watcher' });
		await watcher.getByText('AI', { exact: true }).waitFor();
		for (const name of ['Speak', 'Camera', /Share\sscreen/i]) await anna.getByRole('button', { name, exact: true }).click();
		await anna.getByRole('button', { name: 'Stop sharing' }).waitFor();

		// A person sees and hears; the agent gets frames and samples that have nothing in them.
		await becomes(() => seen(bert, 'camera', 'Anna'), BRIGHT, 'Bert sees the camera');
		await becomes(() => seen(bert, 'screen', 'Anna'), BRIGHT, 'Bert sees the screen');
		await becomes(() => heard(bert), LOUD, 'Bert hears');
		for (const lane of ['camera', 'screen']) {
			await becomes(() => seen(agent, lane, 'Anna'), BLACK, `the agent gets a black ${lane}`);
			assert.ok(BLACK(await seen(agent, lane, 'Anna')), 'and it stays so');
		}
		await becomes(() => heard(agent), SILENT, 'the agent gets silence');
		await agent.getByText('withheld from you').first().waitFor();
		await picture(bert, 'room-call-1280');
		await picture(agent, 'room-call-withheld-1280');
		await isAccessible(bert, 'a call');
		await isAccessible(agent, 'a call with withheld lanes');

		// What is shown stays put in while the roster is repeated: put in again, it would flicker.
		const restarts = await bert.evaluate(async () => {
			let restarts = 0;
			for (const video of document.querySelectorAll('video')) video.addEventListener('emptied', () => restarts++);
			await new Promise((next) => setTimeout(next, 6_000));
			return restarts;
		});
		assert.equal(restarts, 0);

		// Granted live, one and then the other; and taken back.
		await watcher.getByLabel('See screens').check();
		await becomes(() => seen(agent, 'screen', 'Anna'), BRIGHT, 'the agent sees the screen');
		await becomes(() => seen(agent, 'camera', 'Anna'), BRIGHT, 'and the camera');
		assert.ok(SILENT(await heard(agent)), 'and still hears nothing');
		await watcher.getByLabel('Hear sound').check();
		await becomes(() => heard(agent), LOUD, 'the agent hears');
		await watcher.getByLabel('Hear sound').uncheck();
		await becomes(() => heard(agent), SILENT, 'silent again');
		await becomes(() => seen(agent, 'screen', 'Anna'), BRIGHT, 'and sees on');
		await watcher.getByLabel('See screens').uncheck();
		await becomes(() => seen(agent, 'screen', 'Anna'), BLACK, 'black again');
		await becomes(() => seen(agent, 'camera', 'Anna'), BLACK, 'and the camera, too');
		await watcher.getByRole('button', { name: 'Revoke all of watcher' }).click();
		await agent.locator('audio, video').first().waitFor({ state: 'detached' });
		await becomes(() => seen(bert, 'screen', 'Anna'), BRIGHT, 'Bert sees on');

		// Muted, and off.
		await anna.getByRole('button', { name: 'Mute' }).click();
		await becomes(() => heard(bert), SILENT, 'Anna is muted');
		await anna.getByRole('button', { name: 'Stop sharing' }).click();
		await bert.locator('[data-lane="screen"]').waitFor({ state: 'detached' });
		await bert.setViewportSize({ width: 360, height: 740 });
		await bert.getByRole('button', { name: /^Chat/ }).click();
		await fits(bert, 'a call at 360 px');
		await becomes(() => seen(bert, 'camera', 'Anna'), BRIGHT, 'Bert sees the camera on a phone');
		await picture(bert, 'room-call-360');
		await isAccessible(bert, 'a call at 360 px');
	}));
