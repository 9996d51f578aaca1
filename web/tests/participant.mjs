// A participant of a mesh room in a browser tab, with the stock PeerJS library and nothing of ours: what the protocol asks
// of it and no more. Its functions run in the page.

import { readFileSync } from 'node:fs';
import { createRequire } from 'node:module';
import { dirname, join } from 'node:path';

const peerjs = readFileSync(join(dirname(createRequire(import.meta.url).resolve('peerjs')), 'peerjs.min.js'), 'utf8');

/** Brings the library and the functions below into a page of the hub. */
export async function equip(page, hub) {
	await page.goto(hub.http);
	await page.evaluate(`${peerjs}; globalThis.Peer = globalThis.peerjs.Peer;`);
	await page.evaluate(inPage);
}

function inPage() {
	const options = (more = {}) => ({
		host: location.hostname,
		port: Number(location.port),
		path: '/',
		key: 'peerjs',
		secure: false,
		config: { iceServers: [], ...more },
	});

	/** A peer that is open, or the type of the error. */
	globalThis.openPeer = (id, more) =>
		new Promise((resolve) => {
			const peer = id ? new Peer(id, options(more)) : new Peer(options(more));
			peer.on('open', () => resolve(peer));
			peer.on('error', ({ type }) => resolve(type));
		});

	/** Takes part in a room, from now on. */
	globalThis.takePart = async ({ room, name, token, jwt, meta }) => {
		// One certificate for all connections, as the protocol wants it.
		const certificate = await RTCPeerConnection.generateCertificate({ name: 'ECDSA', namedCurve: 'P-256' });
		const media = await openPeer(undefined, { certificates: [certificate] });
		const presence = await openPeer(undefined, { certificates: [certificate] });
		const me = { id: media.id, roster: undefined, caps: {}, lobby: [], heard: [], kicked: false, links: new Map() };
		const dialled = new Set();
		const follow = (link) => {
			link.on('open', () => me.links.set(link.peer, link));
			link.on('close', () => {
				me.links.delete(link.peer);
				dialled.delete(link.peer);
			});
			link.on('data', (data) => {
				if (data.k === 'caps' && link.peer === me.roster?.host) me.caps = data.grants;
				else me.heard.push({ from: link.peer, data });
			});
		};
		media.on('connection', follow);
		media.on('error', () => {});
		const authority = presence.connect(`kbz-v1-${room}`, { reliable: true });
		const voice = () =>
			authority.open && authority.send({ t: 'voice', on: true, cam: false, name, voiceId: media.id, token, jwt, meta });
		authority.on('open', () => {
			voice();
			setInterval(voice, 3000);
			setInterval(() => authority.open && authority.send({ t: 'ping' }), 2500);
		});
		authority.on('data', (frame) => {
			if (frame.t === 'lobby') me.lobby.push(frame.status);
			if (frame.t === 'kick') me.kicked = true;
			if (frame.t !== 'roster') return;
			me.roster = frame;
			for (const { id } of frame.members) {
				if (media.id < id && !me.links.has(id) && !dialled.has(id)) {
					dialled.add(id);
					follow(media.connect(id, { reliable: true }));
				}
			}
		});
		me.authority = authority;
		me.media = media;
		globalThis.me = me;
		return media.id;
	};

	/** Says something to everyone. */
	globalThis.sayToAll = (data) => {
		for (const link of me.links.values()) link.send(data);
	};
}
