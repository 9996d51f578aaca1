// The first thing a person meets: signing in, what it weighs, that it stays alive.

import assert from 'node:assert/strict';
import { readFileSync } from 'node:fs';
import { join } from 'node:path';
import { after, before, test } from 'node:test';
import { gzipSync } from 'node:zlib';
import { startHub } from '../scripts/hub.mjs';
import { inBrowser, isAccessible, isLive, signIn } from './browser.mjs';

let hub;

before(async () => {
	hub = await startHub();
});
after(() => hub.stop());

test('without a session every address leads to the sign-in, and back', () =>
	inBrowser(async (page) => {
		await page.goto(`${hub.http}/machines?q=tag%3Alab`);
		await page.getByRole('heading', { name: 'Sign in to Convoke' }).waitFor();
		await isAccessible(page, 'the sign-in');
		await page.getByRole('button', { name: 'Use a token instead' }).click();
		await page.getByLabel('Operator token').fill('cvk_wrong');
		await page.getByRole('button', { name: 'Sign in' }).click();
		await page.getByRole('alert').waitFor();
		await page.getByLabel('Operator token').fill(hub.token);
		await page.getByRole('button', { name: 'Sign in' }).click();
		await page.getByRole('heading', { name: 'Machines' }).waitFor();
		assert.equal(new URL(page.url()).search, '?q=tag%3Alab');
	}));

test('nobody is sent elsewhere after signing in', () =>
	inBrowser(async (page) => {
		for (const to of ['//evil.example', 'https://evil.example', '/\\evil.example']) {
			await signIn(page, hub, to);
			assert.equal(new URL(page.url()).origin, hub.http);
		}
	}));

test('the page says when the hub is away, and catches up when it is back', () =>
	inBrowser(async (page) => {
		await signIn(page, hub);
		await hub.kill();
		await page.getByText(/last heard/).waitFor();
		await hub.start();
		await isLive(page);
	}));

test('the entry and the home page are light', () => {
	const dist = join(import.meta.dirname, '../dist');
	const manifest = JSON.parse(readFileSync(join(dist, '.vite/manifest.json'), 'utf8'));
	const files = new Set();
	const gather = (key) => {
		const chunk = manifest[key];
		for (const file of [chunk.file, ...(chunk.css ?? [])]) files.add(file);
		for (const other of chunk.imports ?? []) gather(other);
	};
	const weight = () => [...files].reduce((sum, file) => sum + gzipSync(readFileSync(join(dist, file)), { level: 9 }).length, 0);
	gather('index.html');
	const entry = weight();
	gather('src/pages/home/Home.svelte');
	const home = weight();
	console.log(`entry ${entry} bytes, home ${home} bytes, compressed`);
	assert.ok(entry <= 60_000, `the entry has ${entry} bytes`);
	assert.ok(home <= 120_000, `the home page has ${home} bytes`);
});
