// Makes the picture in the README: a small fleet on a quiet afternoon. `node --experimental-websocket scripts/portrait.mjs FILE`

import { enter, inBrowser, PASSWORD } from '../tests/browser.mjs';
import { joinMachine } from '../tests/agent.mjs';
import { snapshot } from '../tests/house.mjs';
import { startHub } from './hub.mjs';

const MACHINES = [
	['nas', 'linux', ['home', 'storage'], { memory: 41, disk: 88 }],
	['web-1', 'linux', ['prod', 'web'], { memory: 58, disk: 47 }],
	['web-2', 'linux', ['prod', 'web'], { memory: 61, disk: 52 }],
	['db-1', 'linux', ['prod', 'db'], { memory: 83, disk: 71 }],
	['build-1', 'linux', ['lab'], { memory: 35, disk: 96 }],
	['reception', 'windows', ['office', 'kiosk'], { memory: 52, disk: 61 }],
	['annas-laptop', 'macos', ['office'], { memory: 77, disk: 64 }],
	['workshop', 'windows', ['lab'], { memory: 49, disk: 38 }],
	['printer-pi', 'linux', ['office', 'kiosk'], { memory: 31, disk: 22 }],
	['camera-gate', 'linux', ['home'], { memory: 44, disk: 57 }],
];

const WELL = { reboot_pending: { status: 'ok', summary: 'none', pending: false, reasons: [] } };

const hub = await startHub();
const machines = [];
try {
	await hub.api('POST', '/api/users', { name: 'anna', role: 'admin', scopes: { approve: true }, password: PASSWORD });
	await hub.api('POST', '/api/users', { name: 'ben', role: 'operator', password: PASSWORD });
	const { token } = await hub.api('POST', '/api/tokens', { name: 'claude', role: 'operator', owner: 'ben' });
	await hub.api('POST', '/api/policy/confirm', { id: 'changes', effects: ['interact', 'manage'], callers: ['claude'] });
	for (const [id, os, tags, load] of MACHINES) {
		const shell = ({ command }) => ({ stdout: `${command}\n`, stderr: '', exit_code: 0 });
		const answers = { shell_exec: shell, powershell_exec: { stdout: '', stderr: '', exit_code: 0 }, diag_services: { services: [] }, fs_disk_usage: { volumes: [] }, net_dns_flush: { ok: true } };
		const machine = await joinMachine(hub, id, { meta: { os, hostname: `${id}.example` }, answers });
		await hub.api('PATCH', `/api/agents/${id}`, { tags });
		const own = id === 'web-1' || id === 'workshop' ? {} : WELL;
		machine.telemetry({ ...snapshot(load), ...own });
		machines.push(machine);
	}
	const ask = (machine, tool, args = {}) => hub.api('POST', `/api/agents/${machine}/call`, { tool, args }, token);
	for (const machine of ['web-1', 'web-2', 'db-1']) await ask(machine, 'diag_services');
	await ask('build-1', 'fs_disk_usage');
	await ask('web-1', 'shell_exec', { command: 'apt-get install -y --only-upgrade openssl && systemctl restart nginx' });
	await ask('build-1', 'shell_exec', { command: 'docker system prune --force' });
	await ask('reception', 'net_dns_flush');
	await machines.pop().leave();
	await inBrowser(
		async (page) => {
			await page.addInitScript(() => localStorage.setItem('tour-seen', '1'));
			await enter(page, hub, 'anna', '/');
			await page.getByText(/on \d+ machines/).first().waitFor();
			await page.getByText('offline').first().waitFor();
			await page.screenshot({ path: process.argv[2] ?? 'page.png' });
		},
		{ width: 1280, height: 800 },
	);
} finally {
	for (const machine of machines) await machine.leave();
	await hub.stop();
}
