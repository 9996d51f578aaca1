// A room whose content goes directly between the participants: a PeerJS peer of this page, one connection to the room's
// authority (the hub) for presence, and one to each of the others for what is said. PeerJS is loaded with this file, and so
// only for rooms that need it.

import { type DataConnection, Peer } from 'peerjs';
import type { Payload } from './content';
import { dials, Enforcer } from './enforce';
import { isRecord } from './grants';
import { iceServers } from './ice';
import { Media } from './media.svelte';
import { type Announce, type Fresh, pause, readLog, readRoster, readWaiting, type Roster, type Sink, type StillThere, type Transport } from './transport';

/** Between signs of life, as the protocol has it. */
const PING_MS = 2_500;
const VOICE_AGAIN_MS = [600, 1_800];
const VOICE_MS = 3_000;
/** An authority that is silent for so long is gone. */
const SILENT_MS = 12_000;
const TICK_MS = 300;
/** A connection that is not open by then is tried anew. */
const OPEN_WITHIN_MS = 15_000;
/** Who is not in the roster any more is hung up on after so long: a hub that starts again lists people one by one. */
const GRACE_MS = 7_000;
const MAX_LINKS = 256;
/** What may wait for a connection that is not open yet. */
const MAX_WAITING = 64;
/** Messages of one participant a second; more are dropped. */
const MAX_RATE = 100;

/** A connection to another's media peer. */
interface Link {
	connection: DataConnection;
	isOpen: boolean;
	since: number;
	/** Messages in the present second. */
	second: number;
	count: number;
	/** When somebody else's message was last held back here. */
	blockedAt: number;
	/** Since when it is in no roster. */
	absentAt?: number;
}

export class Mesh implements Transport {
	#peer!: Peer;
	#enforcer!: Enforcer;
	#authority: DataConnection | undefined;
	#links = new Map<string, Link>();
	/** What was said to those whose connection is not open yet: half of them dial this participant. */
	#waiting = new Map<string, Payload[]>();
	#announced: Announce | undefined;
	#isOver = false;
	#isJoined = false;
	#brokerTries = 0;
	#presenceTries = 0;
	#dialledAt = 0;
	#redial: ReturnType<typeof setTimeout> | undefined;
	#tick: ReturnType<typeof setInterval>;
	#heardAt = 0;
	#pingAt = 0;
	#voiceAt = 0;
	#voiced = 0;
	#media: Media;

	private constructor(
		private readonly room: string,
		private readonly fresh: Fresh,
		private readonly sink: Sink,
		private readonly stillThere: StillThere,
		private readonly certificate: RTCCertificate,
	) {
		this.#media = new Media({
			receives: (id, capability) => this.#enforcer.receives(id, capability, Date.now()),
			may: (capability) => this.#enforcer.may(capability, Date.now()),
			changed: () => this.#voice(),
		});
		this.sink.media(this.#media);
		this.#begin();
		this.#tick = setInterval(() => this.#onTime(), TICK_MS);
	}

	/** One certificate for all connections, so that whoever proves something on one of them is the same on the others. */
	static async open(room: string, fresh: Fresh, sink: Sink, stillThere: StillThere): Promise<Mesh> {
		const certificate = await RTCPeerConnection.generateCertificate({ name: 'ECDSA', namedCurve: 'P-256' } as EcKeyGenParams);
		return new Mesh(room, fresh, sink, stillThere, certificate);
	}

	say(payload: Payload, reference: number, to?: string): void {
		const now = Date.now();
		const refuse = (reason: string) => this.sink.refused(reason, reason, reference);
		if (!this.#isJoined) return refuse('absent');
		if (!this.#enforcer.may('send-chat', now)) return refuse('send-chat');
		if (to === undefined) {
			for (const id of this.#enforcer.hearers(now)) this.#put(id, payload);
			return;
		}
		if (!this.#enforcer.members.some(({ id }) => id === to)) return refuse('unknown');
		if (!this.#enforcer.perceives(to, 'receive-directed', now)) return refuse('receive-directed');
		this.#put(to, payload);
	}

	moderate(op: string, more: Record<string, unknown> = {}): void {
		this.#tell({ t: 'mod', op, ...more });
	}

	leave(): void {
		if (this.#isOver) return;
		this.#tell({ t: 'leave' });
		this.#end();
	}

	#end() {
		this.#isOver = true;
		clearTimeout(this.#redial);
		clearInterval(this.#tick);
		this.#media.end();
		// What was said last is still on its way.
		setTimeout(() => this.#peer.destroy(), 200);
	}

	#over(...why: Parameters<Sink['over']>) {
		if (this.#isOver) return;
		this.#end();
		this.sink.over(...why);
	}

	// The broker.

	#begin() {
		const peer = new Peer({
			host: location.hostname,
			port: Number(location.port) || (location.protocol === 'https:' ? 443 : 80),
			path: '/',
			key: 'peerjs',
			secure: location.protocol === 'https:',
			debug: 0,
			config: { iceServers: [], certificates: [this.certificate] },
		});
		this.#peer = peer;
		peer.on('open', (id) => {
			this.#brokerTries = 0;
			if (this.#enforcer?.me !== id) {
				this.#enforcer = new Enforcer(id);
				this.#isJoined = false;
			}
			// After the broker was away the authority probably was, too: asked at once, not after its silence.
			if (Date.now() - this.#heardAt > PING_MS) void this.#connect();
		});
		peer.on('connection', (connection) => this.#accept(connection));
		peer.on('call', (call) => this.#media.accept(call));
		peer.on('disconnected', () => this.#brokerGone());
		peer.on('close', () => this.#brokerGone());
		peer.on('error', ({ type, message }) => {
			if (type === 'peer-unavailable') this.#unavailable(message);
			else if (type === 'browser-incompatible') this.#over('broken', 'This browser has no WebRTC.');
		});
	}

	#brokerGone() {
		if (this.#isOver) return;
		if (this.#brokerTries === 0 && !this.#isJoined) this.sink.away();
		setTimeout(() => {
			if (this.#isOver) return;
			if (this.#peer.destroyed) this.#begin();
			else if (this.#peer.disconnected) this.#peer.reconnect();
		}, pause(this.#brokerTries++));
	}

	/** The broker says that nobody has an id: the last word of its message. */
	#unavailable(message: string) {
		if (message.includes(`kbz-v1-${this.room}`)) {
			this.#authorityGone();
			return;
		}
		for (const [id, link] of this.#links) if (!link.isOpen && message.includes(id)) this.#drop(id, link);
	}

	// The authority.

	async #connect() {
		clearTimeout(this.#redial);
		this.#dialledAt = Date.now();
		try {
			this.#announced = await this.fresh();
			this.#peer.options.config.iceServers = await iceServers(this.room, this.#announced.jwt);
		} catch {
			return this.#authorityGone();
		}
		if (this.#isOver || this.#peer.disconnected || this.#peer.destroyed) return;
		const older = this.#authority;
		const connection = this.#peer.connect(`kbz-v1-${this.room}`, { reliable: true });
		this.#authority = connection;
		older?.close();
		connection.on('open', () => {
			if (connection !== this.#authority) return;
			this.#heardAt = Date.now();
			this.#pingAt = this.#heardAt + PING_MS;
			this.#voiced = 0;
			this.#voice();
		});
		connection.on('data', (frame) => connection === this.#authority && this.#onPresence(frame));
		connection.on('close', () => connection === this.#authority && this.#authorityGone());
		connection.on('error', () => connection === this.#authority && this.#authorityGone());
	}

	#authorityGone() {
		if (this.#isOver) return;
		const gone = this.#authority;
		this.#authority = undefined;
		gone?.close();
		this.sink.away();
		clearTimeout(this.#redial);
		this.#redial = setTimeout(
			() =>
				void this.stillThere().then((why) => {
					if (this.#isOver) return;
					if (why) this.#over(why);
					// Without its broker it is connected once that is back.
					else if (!this.#peer.disconnected) void this.#connect();
				}),
			pause(this.#presenceTries++),
		);
	}

	#tell(frame: unknown) {
		if (this.#authority?.open) void this.#authority.send(frame);
	}

	#voice() {
		const now = Date.now();
		this.#voiceAt = now + (VOICE_AGAIN_MS[this.#voiced++] ?? VOICE_MS);
		if (!this.#announced) return;
		const { camera, screen, mic } = this.#media.mine;
		const meta = { ...this.#announced.meta, presenting: screen !== undefined, mic: mic !== undefined };
		this.#tell({ t: 'voice', on: true, voiceId: this.#enforcer.me, ...this.#announced, cam: camera !== undefined, meta });
	}

	#onTime() {
		const now = Date.now();
		// Grants end by themselves.
		this.#media.apply();
		this.#media.listen();
		const authority = this.#authority;
		if (authority?.open) {
			if (now - this.#heardAt > SILENT_MS) this.#authorityGone();
			else {
				if (now >= this.#pingAt) {
					this.#pingAt = now + PING_MS;
					this.#tell({ t: 'ping' });
				}
				if (now >= this.#voiceAt) this.#voice();
			}
		} else if (authority && now - this.#dialledAt > OPEN_WITHIN_MS) this.#authorityGone();
		for (const [id, link] of this.#links) {
			const isLate = !link.isOpen && now - link.since > OPEN_WITHIN_MS;
			const isAbsent = link.absentAt !== undefined && now - link.absentAt > GRACE_MS;
			if (isLate || isAbsent) this.#drop(id, link);
		}
	}

	#onPresence(frame: unknown) {
		if (!isRecord(frame)) return;
		this.#heardAt = Date.now();
		switch (frame.t) {
			case 'roster': {
				const roster = readRoster(frame);
				if (roster) this.#onRoster(roster);
				break;
			}
			case 'lobby':
				if (frame.status === 'waiting') this.sink.waiting();
				else if (frame.status === 'denied' || frame.status === 'locked' || frame.status === 'unverified') this.#over(frame.status);
				break;
			case 'host':
				this.sink.hosting(readWaiting(frame.waiting), isRecord(frame.grants) ? frame.grants : {});
				break;
			case 'log':
				this.sink.logged(readLog(frame.lines));
				break;
			case 'kick':
				this.#over('kicked');
				break;
			case 'reset':
				this.sink.cleared();
				break;
			default:
		}
	}

	#onRoster(roster: Roster) {
		const now = Date.now();
		this.#enforcer.onRoster(roster);
		const mine = roster.members.find(({ id }) => id === this.#enforcer.me);
		if (mine) {
			this.#presenceTries = 0;
			this.#isJoined = true;
			this.sink.joined(mine.id, mine.name, mine.kind);
		}
		this.sink.roster(roster);
		const there = new Set(roster.members.map(({ id }) => id));
		for (const id of this.#waiting.keys()) if (!there.has(id)) this.#waiting.delete(id);
		for (const [id, link] of this.#links) link.absentAt = there.has(id) ? undefined : (link.absentAt ?? now);
		for (const id of there) {
			if (id !== this.#enforcer.me && dials(this.#enforcer.me, id) && !this.#links.has(id)) this.#dial(id);
		}
		this.#media.apply();
		if (!mine || this.#peer.disconnected || this.#peer.destroyed) return;
		const others = roster.members.filter(({ id, isHub, isBridged }) => !isHub && !isBridged && dials(this.#enforcer.me, id));
		this.#media.follow(this.#peer, others.map(({ id }) => id), (id) => there.has(id) || this.#links.has(id));
	}

	// The others.

	#dial(id: string) {
		if (this.#peer.disconnected || this.#peer.destroyed) return;
		this.#follow(this.#peer.connect(id, { reliable: true }));
	}

	#accept(connection: DataConnection) {
		if (this.#links.size >= MAX_LINKS && !this.#links.has(connection.peer)) {
			connection.close();
			return;
		}
		this.#follow(connection);
	}

	/** A newer connection of somebody takes the place of the older one. */
	#follow(connection: DataConnection) {
		const id = connection.peer;
		const now = Date.now();
		const older = this.#links.get(id);
		const isListed = this.#enforcer.members.some((member) => member.id === id);
		const link: Link = {
			connection,
			isOpen: false,
			since: now,
			second: 0,
			count: 0,
			blockedAt: 0,
			absentAt: isListed ? undefined : now,
		};
		this.#links.set(id, link);
		older?.connection.close();
		const isPresent = () => this.#links.get(id) === link;
		connection.on('open', () => {
			if (!isPresent()) return;
			link.isOpen = true;
			this.#flush(id, connection);
		});
		connection.on('data', (payload) => isPresent() && this.#onContent(id, link, payload));
		connection.on('close', () => isPresent() && this.#links.delete(id));
		connection.on('error', () => isPresent() && this.#drop(id, link));
	}

	#drop(id: string, link: Link) {
		this.#links.delete(id);
		link.connection.close();
	}

	#put(id: string, payload: Payload) {
		const link = this.#links.get(id);
		if (link?.isOpen) {
			void link.connection.send(payload);
			return;
		}
		const waiting = this.#waiting.get(id) ?? [];
		if (waiting.length < MAX_WAITING) this.#waiting.set(id, [...waiting, payload]);
	}

	/** What waited for the connection, as far as its end may still have it. */
	#flush(id: string, connection: DataConnection) {
		const now = Date.now();
		const waiting = this.#waiting.get(id) ?? [];
		this.#waiting.delete(id);
		for (const payload of waiting) {
			const needed = payload.dm === true ? 'receive-directed' : 'read-chat';
			if (this.#enforcer.perceives(id, needed, now)) void connection.send(payload);
		}
	}

	#onContent(from: string, link: Link, payload: unknown) {
		const now = Date.now();
		const second = Math.floor(now / 1000);
		if (link.second !== second) [link.second, link.count] = [second, 0];
		if (++link.count > MAX_RATE) return;
		const arrived = this.#enforcer.onContent(from, payload, now);
		if (arrived.is === 'caps') {
			this.sink.grants(arrived.grants);
			this.#media.apply();
		}
		if (arrived.is === 'content') this.sink.content(from, payload, from === this.#enforcer.host);
		else if (arrived.is === 'blocked' && now - link.blockedAt > 1000) {
			link.blockedAt = now;
			this.sink.blocked(from, arrived.what);
		}
	}
}
