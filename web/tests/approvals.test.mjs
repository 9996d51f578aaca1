// An approval from the request to the outcome: on a desk, with keys, on a phone, and for whoever must not.

import assert from 'node:assert/strict';
import { after, afterEach, before, test } from 'node:test';
import { until } from './agent.mjs';
import { enter, inBrowser, isAccessible, isHarmless, isLive, stepUp } from './browser.mjs';
import { HOSTILE, startHouse } from './house.mjs';

let house;
let hub;

before(async () => {
	house = await startHouse();
	hub = house.hub;
});
after(() => house?.stop());
// One test's requests are not the next one's.
afterEach(async () => {
	for (const { id } of await waiting()) await hub.api('POST', `/api/approvals/${id}`, { approve: false });
});

/** Something asks, and has to wait. */
async function ask(command, machine = 'desk', tool = 'shell_exec') {
	const args = tool === 'shell_exec' ? { command } : {};
	const reply = await hub.api('POST', `/api/agents/${machine}/call`, { tool, args }, house.script);
	assert.ok(reply.approval, 'it waits for a person');
	return { ...reply, end: () => hub.api('GET', `/api/calls/${reply.call_id}?wait_s=20`, undefined, house.script) };
}

const waiting = async () => (await hub.api('GET', '/api/approvals')).approvals;

test('a request appears by itself, is approved with step-up, and its outcome is shown', () =>
	inBrowser(async (page) => {
		await enter(page, hub, 'anna', '/approvals');
		await page.getByText('Nothing waits').waitFor();
		const asked = await ask('systemctl restart cups');
		await page.getByRole('link', { name: /shell_exec.*desk/ }).click();
		await page.getByText('systemctl restart cups').waitFor();
		await page.getByText(/The first time that/).waitFor();
		await isAccessible(page, 'an approval');
		// The sign-in counts as a step-up for five minutes.
		await page.getByRole('button', { name: /^Approve/ }).click();
		await page.getByText('systemctl restart cups: done').waitFor();
		assert.equal((await asked.end()).outcome, 'ok');
		assert.ok(house.desk.asked.some(({ args }) => args.command === 'systemctl restart cups'));
		await page.getByRole('link', { name: 'Everything the journal has on this call' }).click();
		await page.getByText('anna said yes').waitFor();
		await page.getByText('It went well').waitFor();
	}));

test('the difference to last time is shown, and who asked reads why it came back', () =>
	inBrowser(async (page) => {
		const asked = await ask('systemctl restart cups --now');
		await enter(page, hub, 'anna', `/approvals/${asked.approval.id}`);
		await page.getByText(/Different from last time/).waitFor();
		await page.locator('ins', { hasText: '--now' }).waitFor();
		await page.getByText(/approved 1 time, denied 0 times/).waitFor();
		await page.keyboard.press('s');
		await page.keyboard.type('not while people print');
		await page.getByRole('button', { name: 'Send back', exact: true }).click();
		const end = await asked.end();
		assert.equal(end.outcome, 'rejected');
		assert.match(end.error?.message ?? '', /not while people print/);
	}));

test('several that ask for the very same are decided at once', () =>
	inBrowser(async (page) => {
		const all = await Promise.all([ask('true'), ask('true'), ask('true')]);
		await enter(page, hub, 'anna', '/approvals');
		await page.getByText('3 times the same').waitFor();
		await page.keyboard.press('j');
		await page.getByText(/and 2 others that ask for the very same/).waitFor();
		await page.keyboard.press('d');
		for (const one of all) assert.equal((await one.end()).outcome, 'rejected');
		await page.getByText('Nothing waits').waitFor();
	}));

test('three taps on a phone', () =>
	inBrowser(
		async (page) => {
			const asked = await ask('', 'desk', 'net_dns_flush');
			await enter(page, hub, 'anna');
			await page.getByRole('link', { name: /^Approval net_dns_flush on desk/ }).tap();
			await page.getByRole('button', { name: /^Approve/ }).tap();
			assert.equal((await asked.end()).outcome, 'ok');
			await page.getByRole('button', { name: 'Next' }).waitFor();
		},
		{ width: 360, height: 740, hasTouch: true },
	));

test('what a machine’s request and a model write stays text', () =>
	inBrowser(async (page) => {
		const asked = await ask(HOSTILE, 'evil');
		await enter(page, hub, 'anna', `/approvals/${asked.approval.id}`);
		await page.getByText('written by night-script, not by this hub').waitFor();
		await isHarmless(page, 'the request');
		await page.getByRole('button', { name: /^Approve/ }).click();
		await page.getByText('exit code 1').waitFor();
		await isHarmless(page, 'the answer');
	}));

test('a viewer sees and must not decide; who asked is not the one who decides', () =>
	inBrowser(async (page) => {
		const asked = await ask('whoami');
		// The script is ben's: what is his asked.
		await enter(page, hub, 'ben', `/approvals/${asked.approval.id}`);
		await page.getByText(/not yours to decide/).waitFor();
		assert.equal(await page.getByRole('button', { name: /^Approve/ }).count(), 0);
		await page.keyboard.press('a');
		await page.getByRole('button', { name: 'Sign out' }).click();
		await enter(page, hub, 'vera', '/approvals');
		await page.getByText('Nothing waits').waitFor();
		assert.deepEqual((await waiting()).map(({ id }) => id), [asked.approval.id], 'it still waits');
	}));

test('after five minutes the page asks whether it is still you', () =>
	inBrowser(async (page) => {
		const asked = await ask('id');
		await enter(page, hub, 'anna', `/approvals/${asked.approval.id}`);
		// The hub says so; here its clock cannot be turned.
		let isFirst = true;
		await page.route('**/api/approvals/*', (route) => {
			if (route.request().method() !== 'POST' || !isFirst) return route.continue();
			isFirst = false;
			return route.fulfill({ status: 403, json: { error: { code: 'step_up', message: 'show your password again', request_id: 'r' } } });
		});
		await page.getByRole('button', { name: /^Approve/ }).click();
		await isAccessible(page, 'the step-up');
		await stepUp(page);
		assert.equal((await asked.end()).outcome, 'ok');
	}));

test('a decision that somebody else makes is on the screen at once', () =>
	inBrowser(async (page) => {
		const asked = await ask('uptime');
		await enter(page, hub, 'anna', '/approvals');
		await page.getByRole('link', { name: /shell_exec.*desk/ }).waitFor();
		await hub.api('POST', `/api/approvals/${asked.approval.id}`, { approve: false, reason: 'not now' });
		await page.getByText('Nothing waits').waitFor();
		await isLive(page);
		await until(async () => (await waiting()).length === 0, 'nothing waits');
	}));

test('with the yes an assistant gets the same for a while, until somebody ends it', () =>
	inBrowser(async (page) => {
		const mcp = await assistantAsks('shell_exec', { command: 'uptime' });
		assert.match(mcp, /approval|person/i);
		const [asked] = await waiting();
		await enter(page, hub, 'anna', `/approvals/${asked.id}`);
		await page.getByLabel(/With the approval/).selectOption('900');
		await page.getByRole('button', { name: /^Approve/ }).click();
		await page.getByRole('button', { name: 'Next' }).waitFor();
		await page.getByRole('heading', { name: 'Granted for a while' }).waitFor();
		assert.match(await assistantAsks('shell_exec', { command: 'uptime -p' }), /uptime -p: done/);
		await page.getByRole('button', { name: 'End the grant of shell_exec on desk' }).click();
		await page.getByRole('heading', { name: 'Granted for a while' }).waitFor({ state: 'hidden' });
	}));

/** A call of the assistant, through MCP, without waiting for a person. */
async function assistantAsks(tool, args) {
	const ask = async (id, method, params, session) => {
		const response = await fetch(`${hub.http}/mcp`, {
			method: 'POST',
			headers: {
				authorization: `Bearer ${house.assistant}`,
				'content-type': 'application/json',
				accept: 'application/json, text/event-stream',
				...(session ? { 'mcp-session-id': session } : {}),
			},
			body: JSON.stringify({ jsonrpc: '2.0', ...(id ? { id } : {}), method, params }),
		});
		return { session: response.headers.get('mcp-session-id'), text: await response.text() };
	};
	const client = { protocolVersion: '2025-06-18', capabilities: {}, clientInfo: { name: 'test', version: '1' } };
	const { session } = await ask(1, 'initialize', client);
	await ask(0, 'notifications/initialized', {}, session);
	return (await ask(2, 'tools/call', { name: tool, arguments: { agent: 'desk', ...args } }, session)).text;
}
