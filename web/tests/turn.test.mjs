// Two browsers that reach each other only through a TURN server, with the credentials that the hub gives them.

import assert from 'node:assert/strict';
import { spawn } from 'node:child_process';
import { createSocket } from 'node:dgram';
import { once } from 'node:events';
import { mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { createInterface } from 'node:readline';
import { after, before, test } from 'node:test';
import { startHub } from '../scripts/hub.mjs';
import { inBrowser } from './browser.mjs';
import { equip } from './participant.mjs';

const SECRET = 'a-secret-shared-with-coturn';
const data = mkdtempSync(join(tmpdir(), 'convoke-turn-'));
let turn;
let hub;

/** A port that is free now: coturn takes no port 0. */
async function freePort() {
	const socket = createSocket('udp4').bind(0, '127.0.0.1');
	await once(socket, 'listening');
	const { port } = socket.address();
	await new Promise((resolve) => socket.close(resolve));
	return port;
}

async function startTurn() {
	const port = await freePort();
	const args = ['-n', '-v', '--use-auth-secret', `--static-auth-secret=${SECRET}`, '--realm=convoke.test', '--listening-ip=127.0.0.1'];
	args.push('--relay-ip=127.0.0.1', `--listening-port=${port}`, '--allow-loopback-peers', '--no-tls', '--no-dtls', '--no-cli');
	args.push('--log-file=stdout', '--simple-log', `--pidfile=${join(data, 'pid')}`, `--db=${join(data, 'db')}`);
	const child = spawn('turnserver', args, { stdio: ['ignore', 'pipe', 'ignore'] });
	const log = [];
	const listens = new Promise((resolve, reject) => {
		child.on('error', reject);
		child.on('exit', (code) => reject(new Error(`turnserver ended with code ${code}`)));
		createInterface({ input: child.stdout }).on('line', (line) => {
			log.push(line);
			if (line.includes('UDP listener opened')) resolve();
		});
	});
	await listens;
	return { child, port, log };
}

before(async () => {
	turn = await startTurn();
	hub = await startHub({ settings: [`rooms.turn_url=turn:127.0.0.1:${turn.port}`, `rooms.turn_secret=${SECRET}`] });
	await hub.api('POST', '/api/rooms', { name: 'den', open: true, transport: 'mesh' });
});
after(async () => {
	await hub?.stop();
	if (turn && turn.child.exitCode === null) {
		const ended = once(turn.child, 'exit');
		turn.child.kill('SIGTERM');
		await ended;
	}
	rmSync(data, { recursive: true, force: true });
});

/** Opens a connection from one page to the other with these servers, through relays alone; what came of it. */
async function connect(page, other, servers) {
	const more = { iceServers: servers, iceTransportPolicy: 'relay' };
	const id = await other.evaluate(async (more) => {
		const peer = await openPeer(undefined, more);
		peer.on('connection', (link) => link.on('data', (data) => link.send(`heard ${data}`)));
		return peer.id;
	}, more);
	return page.evaluate(
		async ({ id, more }) => {
			const peer = await openPeer(undefined, more);
			const link = peer.connect(id, { reliable: true });
			const heard = new Promise((resolve) => link.on('data', resolve));
			link.on('open', () => link.send('hi'));
			const failed = new Promise((resolve) => {
				peer.on('error', ({ type }) => resolve(type));
				link.on('iceStateChanged', (state) => state === 'failed' && resolve(state));
				link.peerConnection.addEventListener('icecandidateerror', ({ errorCode }) => resolve(`refused: ${errorCode}`));
			});
			const answer = await Promise.race([heard, failed]);
			if (answer !== 'heard hi') return { answer };
			const stats = [...(await link.peerConnection.getStats()).values()];
			const pair = stats.find((one) => one.type === 'candidate-pair' && one.nominated && one.state === 'succeeded');
			const type = (candidate) => stats.find((one) => one.id === candidate)?.candidateType;
			return { answer, local: type(pair.localCandidateId), remote: type(pair.remoteCandidateId) };
		},
		{ id, more },
	);
}

test('browsers talk through the relay alone with what the hub gives them', () =>
	inBrowser(async (page, context) => {
		const other = await context.newPage();
		for (const one of [page, other]) await equip(one, hub);
		const { iceServers } = await page.evaluate(async () => (await fetch('/api/turn?room=den')).json());
		assert.equal(iceServers.length, 1);
		const through = await connect(page, other, iceServers);
		assert.equal(through.answer, 'heard hi');
		assert.equal(through.local, 'relay');
		assert.ok(turn.log.some((line) => line.includes('ALLOCATE processed, success')), turn.log.join('\n'));

		const wrong = [{ ...iceServers[0], credential: 'wrong' }];
		const without = await connect(page, other, wrong);
		assert.equal(without.answer, 'refused: 401');
	}));
