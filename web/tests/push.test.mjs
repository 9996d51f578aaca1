// What the hub pushes: shown by the service worker, once for each thing, and leading nowhere but into this page.

import assert from 'node:assert/strict';
import { after, before, test } from 'node:test';
import { until } from './agent.mjs';
import { enter, inBrowser, isAccessible } from './browser.mjs';
import { startHouse } from './house.mjs';

let house;
let hub;

before(async () => {
	house = await startHouse();
	hub = house.hub;
});
after(() => house?.stop());

test('a pushed notice is shown once for each thing, with its words as text', () =>
	inBrowser(async (page, context) => {
		await context.grantPermissions(['notifications'], { origin: hub.http });
		await enter(page, hub, 'anna', '/');
		const cdp = await context.newCDPSession(page);
		const registrations = [];
		cdp.on('ServiceWorker.workerRegistrationUpdated', ({ registrations: some }) => registrations.push(...some));
		await cdp.send('ServiceWorker.enable');
		await page.evaluate(async () => {
			await navigator.serviceWorker.register('/sw.js');
			await navigator.serviceWorker.ready;
		});
		const registration = await until(() => registrations.find(({ scopeURL }) => scopeURL === `${hub.http}/`), 'the worker is known');
		const deliver = (notice) =>
			cdp.send('ServiceWorker.deliverPushMessage', { origin: hub.http, registrationId: registration.registrationId, data: typeof notice === 'string' ? notice : JSON.stringify(notice) });
		const shown = () =>
			page.evaluate(async () => {
				const registration = await navigator.serviceWorker.ready;
				return (await registration.getNotifications()).map(({ title, body, tag, data }) => ({ title, body, tag, url: data.url }));
			});
		const notice = { kind: 'approval', handle: 'a-1', title: 'Something waits', text: 'claude asks', url: `${hub.http}/approvals/1` };
		await deliver(notice);
		await until(async () => (await shown()).length === 1, 'it is shown');
		await deliver({ ...notice, text: 'claude asks again' });
		await until(async () => (await shown())[0]?.body === 'claude asks again', 'the same thing is one notice');
		assert.equal((await shown()).length, 1);
		await deliver('no JSON at all');
		await until(async () => (await shown()).length === 2, 'what is no notice is shown as nothing more than that');
		assert.deepEqual((await shown()).find(({ tag }) => tag === 'notice'), { title: 'Convoke', body: '', tag: 'notice', url: '/' });
	}, { isOwn: true }));

test('the page can be installed', () =>
	inBrowser(async (page, context) => {
		await enter(page, hub, 'anna', '/');
		const cdp = await context.newCDPSession(page);
		const { url, errors, data } = await cdp.send('Page.getAppManifest');
		assert.equal(url, `${hub.http}/manifest.webmanifest`);
		assert.deepEqual(errors, []);
		assert.equal(JSON.parse(data).name, 'Convoke');
	}));

test('a place for notices is added, tried and removed', () =>
	inBrowser(async (page) => {
		await enter(page, hub, 'anna', '/settings/notices');
		await page.getByText('Nowhere yet').waitFor();
		await isAccessible(page, 'notices');
		await page.getByLabel('Or somewhere else').selectOption('ntfy');
		await page.getByLabel('Address').fill('https://ntfy.example/a-topic');
		await page.getByLabel('What to call it (optional)').fill('my phone');
		await page.getByRole('button', { name: 'Add it' }).click();
		await page.getByText('my phone').waitFor();
		await page.getByRole('button', { name: 'Remove my phone' }).click();
		await page.getByRole('button', { name: 'Remove it' }).click();
		await page.getByText('Nowhere yet').waitFor();
	}));
