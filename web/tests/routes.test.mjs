// Every address: it fits at every width, breaks no rule of accessibility in either colour, and shows nothing but text of
// what somebody else wrote. Pictures are kept.

import { after, before, test } from 'node:test';
import { enter, fits, inBrowser, isAccessible, isHarmless, picture, visit } from './browser.mjs';
import { HOSTILE, startHouse } from './house.mjs';

const ROUTES = [
	['home', '/', 'Home'],
	['then', 'then', 'The fleet as it was'],
	['machines', '/machines', 'Machines'],
	['machines-none', '/machines?q=nothing-has-this', 'Machines'],
	['machine', '/machines/desk', 'desk'],
	['machine-section', '/machines/evil?section=disk', 'evil'],
	['machine-odd-section', `/machines/evil?section=${encodeURIComponent('\u202Eodd_section')}`, 'evil'],
	['machine-odd-file', `/machines/evil/files?file=${encodeURIComponent('/a\u202Eb')}`, 'evil'],
	['processes', '/machines/desk/processes', 'desk'],
	['services', '/machines/evil/services', 'evil'],
	['logs', '/machines/evil/logs', 'evil'],
	['files', '/machines/desk/files', 'desk'],
	['screen', '/machines/desk/screen', 'desk'],
	['terminal', '/machines/desk/terminal', 'desk'],
	['tools', '/machines/desk/tools?tool=fs_search', 'desk'],
	['machine-journal', '/machines/evil/journal', 'evil'],
	['manage', '/machines/desk/manage', 'desk'],
	['approvals', '/approvals', 'Approvals'],
	['approvals-all', '/approvals?state=all', 'Approvals'],
	['approval', 'approval', 'Approvals'],
	['journal', '/journal', 'Journal'],
	['calls', '/calls', 'Calls'],
	['logs-all', '/logs', 'Logs of all machines'],
	['story', 'story', 'shell_exec on evil'],
	['verify', '/journal/verify', 'Verify the journal'],
	['probes', '/probes?way=probe', 'Probes and runbooks'],
	['runbooks', '/probes?runbook=storage', 'Probes and runbooks'],
	['clients', '/clients', 'Clients'],
	['rules', '/clients/rules', 'Clients'],
	['messages', '/clients/messages', 'Clients'],
	['rooms', '/rooms', 'Rooms'],
	['room', '/rooms/standup', 'standup'],
	['room-door', '/room/standup', 'standup'],
	['policy', '/policy', 'Policy'],
	['deny', '/policy/deny', 'Policy'],
	['try', '/policy/try', 'Policy'],
	['who', '/policy/who', 'Policy'],
	['assistants', '/assistants', 'Assistants'],
	['assistant', 'assistant', 'claude'],
	['you', '/settings', 'Settings'],
	['users', '/settings/users', 'Settings'],
	['sessions', '/settings/sessions', 'Settings'],
	['tokens', '/settings/tokens', 'Settings'],
	['add-machine', '/settings/add-machine', 'Settings'],
	['connect', '/settings/assistants', 'Settings'],
	['notices', '/settings/notices', 'Settings'],
	['hub', '/settings/hub', 'Settings'],
	['nowhere', '/no/such/page', 'There is no such page'],
];

let house;
const places = {};

before(async () => {
	house = await startHouse({ machines: 30 });
	const call = (machine, tool, args) => house.hub.api('POST', `/api/agents/${machine}/call`, { tool, args }, house.script);
	await call('desk', 'net_dns_flush', {});
	const waiting = await call('evil', 'shell_exec', { command: HOSTILE });
	places.approval = `/approvals/${waiting.approval.id}`;
	const { tokens } = await house.hub.api('GET', '/api/tokens');
	places.assistant = `/assistants/${tokens.find(({ name }) => name === 'claude').id}`;
	places.then = `/fleet?at=${encodeURIComponent(new Date().toISOString())}`;
	places.story = `/journal?call=${waiting.call_id}`;
});
after(() => house?.stop());

/** Goes there, and waits until what is read is there. */
async function show(page, path, heading) {
	await visit(page, places[path] ?? path);
	await page.getByRole('heading', { level: 1, name: heading, exact: true }).waitFor();
	await page.waitForFunction(() => !/Reading…|Loading…|Asking…/.test(document.body.innerText));
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
				for (const [name, path, heading] of ROUTES) {
					await show(page, path, heading);
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
