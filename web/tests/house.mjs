// A hub as it is lived in: users, machines that are well and not, an assistant that asks, and words that want to be more
// than words.

import { startAgent, startFleet, startHub } from '../scripts/hub.mjs';
import { joinMachine } from './agent.mjs';
import { PASSWORD } from './browser.mjs';

/** Markup, script, marks that turn the writing, controls and more, as machines and models may send them. */
export const HOSTILE =
	'<img src=x onerror="globalThis.pwned=1"><script>globalThis.pwned=1</script>\u202Egnp.exe\u2066\u200B\u0007\u001b[31mred {{x}} ${1} javascript:alert(1)';

const GIB = 2 ** 30;

/** Telemetry of a machine in use. */
export function snapshot({ memory = 61, disk = 72, summary } = {}) {
	return {
		disk: {
			status: 'ok',
			summary: summary ?? `/ ${disk}% full`,
			volumes: [
				{ mount: '/', percent_used: disk, total_bytes: 512 * GIB, free_bytes: Math.round((512 * GIB * (100 - disk)) / 100) },
				{ mount: '/home', percent_used: 38, total_bytes: 1024 * GIB, free_bytes: 635 * GIB },
			],
		},
		memory: {
			status: 'ok',
			summary: `${memory}% used`,
			percent_used: memory,
			total_bytes: 32 * GIB,
			used_bytes: Math.round((32 * GIB * memory) / 100),
		},
		thermals: { status: 'ok', summary: 'hottest 52 °C', sensors: [{ label: 'CPU', temperature_c: 52 }] },
		uptime: { status: 'ok', summary: 'up 12 days', uptime_secs: 12 * 86_400 },
		services: { status: 'ok', summary: 'all run' },
		reboot_pending: { status: 'warn', summary: 'a newer kernel waits', pending: true, reasons: ['kernel'] },
		os_support: { status: 'ok', summary: 'supported until 2028' },
		time_sync: { status: 'ok', summary: 'synchronised', offset_secs: 0.004, synchronized: true },
		firewall: { status: 'ok', summary: 'nftables filters input' },
		app_updates: { status: 'ok', summary: '2 packages wait', available: 2 },
		...(summary ? { ['\u202Eodd_section']: { status: 'warn', summary, ['\u202Efield']: 3, list: [{ name: summary, load: 1 }] } } : {}),
	};
}

const ANSWERS = {
	diag_processes: {
		processes: [
			{ pid: 1, name: 'systemd', cpu: 0.1, mem_bytes: 13_000_000 },
			{ pid: 812, name: 'postgres', cpu: 12.4, mem_bytes: 912_000_000 },
			{ pid: 4711, name: 'node', cpu: 3.2, mem_bytes: 311_000_000 },
		],
	},
	diag_services: {
		services: [
			{ name: 'ssh.service', display: 'OpenBSD Secure Shell server', status: 'running', start: 'enabled' },
			{ name: 'cups.service', display: 'CUPS Scheduler', status: 'stopped', start: 'disabled' },
		],
	},
	fs_list: ({ path }) => ({
		entries: path === '/' ? ['etc', 'home', 'var'].map((name) => ({ name, is_dir: true })) : [{ name: 'motd', is_dir: false, bytes: 1280 }],
	}),
	fs_read: ({ path }) => ({ content: `this is ${path}\n`, truncated: false }),
	fs_search: { matches: ['/etc/motd'] },
	shell_exec: ({ command }) => ({ stdout: `${command}: done\n`, stderr: '', exit_code: 0 }),
	net_dns_flush: { ok: true },
	screen_capture: {
		image_b64: 'iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNkYPhfDwAChwGA60e6kgAAAABJRU5ErkJggg==',
		format: 'png',
	},
};

/** Starts all of it. `machines` more are simulated; `isReal` runs an agent on this machine, too. */
export async function startHouse({ machines = 0, isReal = false, settings = [] } = {}) {
	const hub = await startHub({ settings });
	const ending = [];
	try {
		const person = (name, role, scopes = {}) => hub.api('POST', '/api/users', { name, role, scopes, password: PASSWORD });
		await person('anna', 'admin', { approve: true });
		await person('ben', 'operator', { approve: true });
		await person('vera', 'viewer');
		const { token: assistant } = await hub.api('POST', '/api/tokens', {
			name: 'claude',
			role: 'operator',
			owner: 'anna',
			scopes: { doors: ['mcp'] },
		});
		const { token: script } = await hub.api('POST', '/api/tokens', { name: 'night-script', role: 'operator', owner: 'ben' });
		await hub.api('POST', '/api/policy/confirm', { id: 'changes', effects: ['interact', 'manage'], callers: ['night-script'] });
		await hub.api('POST', '/api/yonexus/clients', { identifier: 'build-bot' });
		await hub.api('POST', '/api/rules', { rule: 'deploy', target: { inbox: {} } });
		await hub.api('POST', '/api/rooms', { name: 'standup', lobby: true });
		const desk = await joinMachine(hub, 'desk', { meta: { hostname: 'desk.example' }, answers: ANSWERS });
		await hub.api('PATCH', '/api/agents/desk', { tags: ['office', 'linux'] });
		const evil = await joinMachine(hub, 'evil', {
			meta: { hostname: HOSTILE, version: HOSTILE, os: HOSTILE },
			answers: { ...ANSWERS, shell_exec: { stdout: HOSTILE, stderr: HOSTILE, exit_code: 1 }, ...hostileAnswers() },
		});
		for (const machine of [desk, evil]) {
			for (const at of [55, 58, 61]) machine.telemetry(snapshot({ memory: at, disk: machine === evil ? 97 : 72, summary: machine === evil ? HOSTILE : undefined }));
			machine.log('warn', machine === evil ? HOSTILE : 'the disk is slow', { ms: 412 });
			machine.log('info', machine === evil ? HOSTILE : 'a user signed in');
		}
		ending.push(desk.leave, evil.leave);
		if (machines > 0) ending.push((await startFleet(hub, machines)).stop);
		if (isReal) ending.push((await startAgent(hub, 'this-machine')).stop);
		return { hub, desk, evil, assistant, script, stop };
	} catch (why) {
		await stop();
		throw why;
	}

	async function stop() {
		for (const end of ending.reverse()) await end();
		await hub.stop();
	}
}

function hostileAnswers() {
	return {
		diag_processes: { processes: [{ pid: 1, name: HOSTILE, cpu: 1, mem_bytes: 1 }] },
		diag_services: { services: [{ name: HOSTILE, display: HOSTILE, status: HOSTILE, start: HOSTILE }] },
		fs_list: { entries: [{ name: HOSTILE, is_dir: false, bytes: 1 }] },
		fs_read: { content: HOSTILE, truncated: false },
		screen_capture: { image_b64: '"><script>globalThis.pwned=1</script>', format: 'svg+xml' },
	};
}
