// Starts a hub of its own for a script or a test: a free port, a data directory that vanishes.

import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { existsSync, mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { dirname, join } from 'node:path';
import { createInterface } from 'node:readline';
import { fileURLToPath } from 'node:url';

const root = dirname(dirname(dirname(fileURLToPath(import.meta.url))));

/** The program under test. */
export function program() {
	const file = process.env.CONVOKE ?? join(root, 'target/debug/convoke');
	if (!existsSync(file)) throw new Error(`there is no ${file}: build it, or name another in CONVOKE`);
	return file;
}

/** The first line that a child prints; an error where it ends before. */
async function firstLine(child) {
	const lines = createInterface({ input: child.stdout });
	const ended = once(child, 'exit').then(([code]) => Promise.reject(new Error(`it ended with code ${code}`)));
	const [line] = await Promise.race([once(lines, 'line'), ended]);
	return line;
}

async function end(child) {
	if (child.exitCode !== null || child.signalCode !== null) return;
	const ended = once(child, 'exit');
	child.kill('SIGTERM');
	const timer = setTimeout(() => child.kill('SIGKILL'), 8_000);
	await ended;
	clearTimeout(timer);
}

/** A running hub: where it is, its operator token, and how to stop it or start it again in the same place. */
export async function startHub({ token = 'cvk_page-tests-operator-token', settings = [] } = {}) {
	const data = mkdtempSync(join(tmpdir(), 'convoke-page-'));
	let child;
	let listen = '127.0.0.1:0';
	const hub = { data, token, http: '', ready: undefined, start, kill: () => end(child), stop, api };

	async function start() {
		const set = settings.flatMap((one) => ['--set', one]);
		const args = ['--data', data, 'hub', '--print-json', '--listen', listen, ...set];
		const env = { ...process.env, CONVOKE_OPERATOR_TOKEN: token };
		child = spawn(program(), args, { env, stdio: ['ignore', 'pipe', process.env.HUB_LOG ? 'inherit' : 'ignore'] });
		hub.ready = JSON.parse(await firstLine(child));
		hub.http = hub.ready.http;
		// After a restart the browser must find it where it was.
		listen = new URL(hub.http).host;
	}

	/** A request to the hub with the operator's token, or another one. */
	async function api(method, path, body, as = token) {
		const headers = { authorization: `Bearer ${as}`, 'content-type': 'application/json' };
		const response = await fetch(hub.http + path, { method, headers, body: body === undefined ? undefined : JSON.stringify(body) });
		const text = await response.text();
		if (!response.ok) throw new Error(`${method} ${path}: ${response.status} ${text}`);
		return text === '' ? undefined : JSON.parse(text);
	}

	async function stop() {
		await end(child);
		rmSync(data, { recursive: true, force: true });
	}

	await start();
	return hub;
}

/** Runs a verb of the program against a hub and gives back what it prints. */
export async function convoke(hub, ...args) {
	const env = { ...process.env, CONVOKE_HUB: hub.http, CONVOKE_TOKEN: hub.token };
	const child = spawn(program(), args, { env, stdio: ['ignore', 'pipe', 'pipe'] });
	let out = '';
	let err = '';
	child.stdout.on('data', (piece) => (out += piece));
	child.stderr.on('data', (piece) => (err += piece));
	const [code] = await once(child, 'close');
	if (code !== 0) throw new Error(`convoke ${args.join(' ')} failed (${code}): ${err}`);
	return out;
}

/** An agent of this machine, enrolled and running. */
export async function startAgent(hub, id) {
	const { token, hub_public_key: key } = JSON.parse(await convoke(hub, '--json', 'enroll-token', id));
	const state = join(hub.data, `agent-${id}`);
	await convoke(hub, 'agent', 'enroll', '--state', state, '--hub', hub.http, '--id', id, '--token', token, '--hub-key', key);
	const child = spawn(program(), ['agent', 'run', '--state', state], { stdio: 'ignore' });
	return { id, stop: () => end(child) };
}

/** So many simulated machines, enrolled and connected, with the health that fleets have. */
export async function startFleet(hub, count) {
	const env = { ...process.env, CONVOKE_HUB: hub.http, CONVOKE_TOKEN: hub.token };
	const key = hub.ready.kenny_public_key;
	const args = ['sim', 'agents', '--target', hub.http.replace('http://', ''), '--target-key', key, '--enrol', '--count', String(count)];
	const child = spawn(program(), args, { env, stdio: ['pipe', 'pipe', process.env.HUB_LOG ? 'inherit' : 'ignore'] });
	const lines = createInterface({ input: child.stdout })[Symbol.asyncIterator]();
	const answer = async () => {
		const { value, done } = await lines.next();
		if (done) throw new Error('the simulated machines are gone');
		const reply = JSON.parse(value);
		if (reply.problem) throw new Error(reply.problem);
		return reply;
	};
	const say = (command) => {
		child.stdin.write(`${JSON.stringify(command)}\n`);
		return answer();
	};
	await answer();
	await say({ do: 'push', count, unlike: true });
	return { say, stop: () => end(child) };
}
