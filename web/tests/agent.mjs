// A machine that answers as a test tells it to: the kenny tunnel's agent side in a few lines, with its own key.

import assert from 'node:assert/strict';
import { generateKeyPairSync, randomBytes, sign } from 'node:crypto';

/** What `register.meta` says where a test says nothing else. */
const META = { hostname: 'desk', os: 'linux', version: '1.4.2', arch: 'x86_64' };

/**
 * Enrols and connects a machine. `answers` has a function of the arguments, or a value, for each tool; what it throws
 * is the error. `protocol` decides which tools the hub believes it has.
 */
export async function joinMachine(hub, id, { meta = {}, answers = {}, protocol = '0.18' } = {}) {
	const { publicKey, privateKey } = generateKeyPairSync('ed25519');
	const raw = publicKey.export({ format: 'der', type: 'spki' }).subarray(-32);
	const { token } = await hub.api('POST', `/api/agents/${id}/token`);
	await hub.api('POST', `/api/agents/${id}/enroll`, { public_key: raw.toString('base64') }, token);

	const socket = new WebSocket(`${hub.http.replace('http', 'ws')}/agent/ws`);
	const say = (frame) => socket.send(JSON.stringify(frame));
	const nonce = randomBytes(32);
	const asked = [];

	const isIn = new Promise((resolve, reject) => {
		socket.onerror = () => reject(new Error(`${id} cannot connect`));
		socket.onclose = ({ code }) => reject(new Error(`${id} was refused with ${code}`));
		socket.onopen = () => {
			const client_nonce = nonce.toString('base64');
			say({ type: 'register', agent_id: id, protocol, client_nonce, meta: { ...META, hostname: id, ...meta } });
		};
		socket.onmessage = ({ data }) => {
			const frame = JSON.parse(data);
			if (frame.type === 'challenge') {
				const zero = Buffer.from([0]);
				const parts = ['kenny-mutual-auth-v1', zero, id, zero, nonce, zero, Buffer.from(frame.server_nonce, 'base64')];
				const transcript = Buffer.concat(parts.map((part) => Buffer.from(part)));
				say({ type: 'auth', agent_sig: sign(null, transcript, privateKey).toString('base64') });
			} else if (frame.type === 'policy') {
				resolve();
			} else if (frame.type === 'ping') {
				say({ ...frame, type: 'pong' });
			} else if (frame.type === 'request') {
				asked.push(frame);
				void answer(frame);
			}
		};
	});

	async function answer({ id, tool, args }) {
		try {
			const known = answers[tool];
			if (known === undefined) throw { code: 'unsupported', message: `this machine has no ${tool}` };
			const result = typeof known === 'function' ? await known(args) : known;
			say({ type: 'response', id, ok: true, result });
		} catch (why) {
			say({ type: 'response', id, ok: false, error: { code: why.code ?? 'internal', message: String(why.message) } });
		}
	}

	await isIn;
	return {
		id,
		/** The requests that came. */
		asked,
		telemetry: (snapshot) => say({ type: 'telemetry', agent_id: id, collected_at: new Date().toISOString(), snapshot }),
		log: (level, message, fields, target = 'desk::app') =>
			say({ type: 'log', agent_id: id, at: new Date().toISOString(), level, target, message, ...(fields ? { fields } : {}) }),
		leave: () =>
			new Promise((resolve) => {
				socket.onclose = resolve;
				socket.close();
			}),
	};
}

/** Waits until something holds; it is looked at again after each event of the hub. */
export async function until(look, what, most = 10_000) {
	const end = Date.now() + most;
	for (;;) {
		const found = await look();
		if (found) return found;
		assert.ok(Date.now() < end, `not within ${most} ms: ${what}`);
		await new Promise((resolve) => setTimeout(resolve, 25));
	}
}
