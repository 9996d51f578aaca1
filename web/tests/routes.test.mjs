// Every address: it fits at every width, breaks no rule of accessibility in either colour, and shows nothing but text of
// what somebody else wrote. Pictures are kept.

import { after, before, test } from 'node:test';
import { enter, fits, inBrowser, isAccessible, isHarmless, picture, visit } from './browser.mjs';
import { HOSTILE, startHouse } from './house.mjs';

const ROUTES = [
	['home', '/'],
	['machines', '/machines'],
	['machines-none', '/machines?q=nothing-has-this'],
	['machine', '/machines/desk'],
	['machine-section', '/machines/evil?section=disk'],
	['processes', '/machines/desk/processes'],
	['services', '/machines/evil/services'],
	['logs', '/machines/evil/logs'],
	['files', '/machines/desk/files'],
	['screen', '/machines/desk/screen'],
	['terminal', '/machines/desk/terminal'],
	['tools', '/machines/desk/tools?tool=fs_search'],
	['machine-journal', '/machines/evil/journal'],
	['manage', '/machines/desk/manage'],
	['approvals', '/approvals'],
	['approvals-all', '/approvals?state=all'],
	['approval', 'approval'],
	['journal', '/journal'],
	['story', 'story'],
	['you', '/settings'],
	['users', '/settings/users'],
	['sessions', '/settings/sessions'],
	['tokens', '/settings/tokens'],
	['add-machine', '/settings/add-machine'],
	['connect', '/settings/assistants'],
	['hub', '/settings/hub'],
	['nowhere', '/no/such/page'],
];

let house;
const places = {};

before(async () => {
	house = await startHouse({ machines: 30 });
	const call = (machine, tool, args) => house.hub.api('POST', `/api/agents/${machine}/call`, { tool, args }, house.script);
	await call('desk', 'net_dns_flush', {});
	const waiting = await call('evil', 'shell_exec', { command: HOSTILE });
	places.approval = `/approvals/${waiting.approval.id}`;
	places.story = `/journal?call=${waiting.call_id}`;
});
after(() => house?.stop());

/** Goes there, and waits until what is read is there. */
async function show(page, path) {
	await visit(page, places[path] ?? path);
	await page.waitForFunction(() => !/Reading…|Loading…|Asking…/.test(document.body.innerText) && document.querySelector('h1'));
}

for (const [width, height, colorScheme] of [
	[360, 740, 'light'],
	[1280, 800, 'dark'],
	[1280, 800, 'light'],
	[3840, 2160, 'dark'],
]) {
	test(`every route at ${width} px, ${colorScheme}`, () =>
		inBrowser(
			async (page) => {
				await enter(page, house.hub, 'anna');
				for (const [name, path] of ROUTES) {
					await show(page, path);
					await picture(page, `${name}-${width}-${colorScheme}`);
					await fits(page, `${name} at ${width} px`);
					await isHarmless(page, name);
					// Widths that share a layout share what axe would find.
					if (width < 3840) await isAccessible(page, `${name} at ${width} px, ${colorScheme}`);
				}
			},
			{ width, height, colorScheme },
		));
}
