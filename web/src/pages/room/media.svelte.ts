// Sound, cameras and screens between the participants of a mesh room.
//
// Every connection carries three lanes and starts with placeholders that flow: silence, and black. What is really there goes
// into a lane only while its other end may perceive it, as the hub has said; taken back, the placeholder is there again.

import type { MediaConnection, Peer } from 'peerjs';
import { SvelteMap, SvelteSet } from 'svelte/reactivity';
import type { Capability } from './grants';
import { LANES, type Lane, type MediaView, type Received, type Tracks } from './lanes';

/** What an end needs so that a lane is more than a placeholder. There is no capability for cameras: they count as screens. */
const NEEDS: Record<Lane, 'hear-audio' | 'see-screen'> = { mic: 'hear-audio', camera: 'see-screen', screen: 'see-screen' };
/** What who sends it needs. */
const SPEAKS: Record<Lane, Capability> = { mic: 'speak', camera: 'send-chat', screen: 'send-chat' };
const BLACK_MS = 200;
const MAX_CALLS = 64;
/** Louder than this is speech, of 1. */
const LOUD = 0.02;
/** After a connection failed, the next is not made at once. */
const AGAIN_MS = 10_000;

/** What the mesh knows and the lanes are held to. */
export interface Rules {
	/** Whether the other end may perceive it, now. */
	receives(id: string, capability: 'hear-audio' | 'see-screen'): boolean;
	/** Whether this participant may send it. */
	may(capability: Capability): boolean;
	/** What is shown of this participant changed. */
	changed(): void;
}

export class Media implements MediaView {
	mine = $state.raw<Tracks>({});
	theirs = new SvelteMap<string, Received>();
	speaking = new SvelteSet<string>();
	trouble = $state('');
	inputs = $state.raw<MediaDeviceInfo[]>([]);
	chosen = $state.raw<{ mic?: string; camera?: string }>({});
	#calls = new Map<string, MediaConnection>();
	#failedAt = new Map<string, number>();
	#placeholders: Placeholders | undefined;
	#isOver = false;

	constructor(private readonly rules: Rules) {}

	// What this participant shows.

	async toggle(lane: Lane): Promise<void> {
		this.trouble = '';
		if (this.mine[lane]) return this.#put(lane, undefined);
		try {
			const track = await this.#open(lane);
			if (this.#isOver) track.stop();
			else this.#put(lane, track);
		} catch (why) {
			this.trouble = words(lane, why);
		}
		await this.#list();
	}

	/** Takes another device, at once if the lane is in use. */
	async choose(lane: 'mic' | 'camera', device: string): Promise<void> {
		this.chosen = { ...this.chosen, [lane]: device };
		if (!this.mine[lane]) return;
		this.#put(lane, undefined);
		await this.toggle(lane);
	}

	async #open(lane: Lane): Promise<MediaStreamTrack> {
		const devices = navigator.mediaDevices as MediaDevices | undefined;
		if (!devices) throw new DOMException('', 'SecurityError');
		const by = (device: string | undefined) => (device ? { deviceId: { exact: device } } : {});
		const stream =
			lane === 'screen'
				? await devices.getDisplayMedia({ video: { frameRate: { max: 15 } } })
				: lane === 'camera'
					? await devices.getUserMedia({ video: { width: { ideal: 640 }, height: { ideal: 360 }, ...by(this.chosen.camera) } })
					: await devices.getUserMedia({ audio: by(this.chosen.mic) });
		const track = stream.getTracks()[0];
		if (!track) throw new DOMException('', 'NotFoundError');
		if (lane === 'screen') track.contentHint = 'detail';
		return track;
	}

	#put(lane: Lane, track: MediaStreamTrack | undefined) {
		const before = this.mine[lane];
		if (before) {
			before.onended = null;
			before.stop();
		}
		if (track) track.onended = () => this.#put(lane, undefined);
		this.mine = { ...this.mine, [lane]: track };
		this.apply();
		this.rules.changed();
	}

	async #list() {
		const found = await navigator.mediaDevices?.enumerateDevices().catch(() => []);
		this.inputs = (found ?? []).filter(({ kind, deviceId }) => kind !== 'audiooutput' && deviceId !== '');
	}

	// Its connections.

	/** Makes connections to those whom this participant dials, and ends those to who is gone. */
	follow(peer: Peer, dialled: string[], there: (id: string) => boolean): void {
		for (const [id, call] of this.#calls) if (!there(id)) call.close();
		const now = Date.now();
		for (const id of dialled) {
			if (this.#calls.has(id) || now - (this.#failedAt.get(id) ?? 0) < AGAIN_MS) continue;
			const stream = this.#start();
			this.#keep(peer.call(id, stream, { metadata: { lanes: stream.getTracks().map((track) => this.#placeholders?.laneOf(track)) } }));
		}
	}

	accept(call: MediaConnection): void {
		if (this.#isOver || (this.#calls.size >= MAX_CALLS && !this.#calls.has(call.peer))) return call.close();
		call.answer(this.#start());
		this.#keep(call);
	}

	/** A newer connection of somebody takes the place of the older one. */
	#keep(call: MediaConnection) {
		const id = call.peer;
		const older = this.#calls.get(id);
		this.#calls.set(id, call);
		older?.close();
		const isPresent = () => this.#calls.get(id) === call;
		const settled = () => {
			if (!isPresent()) return;
			this.#receive(id, call);
			this.apply();
		};
		const connection = call.peerConnection;
		connection?.addEventListener('track', settled);
		connection?.addEventListener('signalingstatechange', settled);
		const gone = () => {
			if (!isPresent()) return;
			this.#calls.delete(id);
			this.#failedAt.set(id, Date.now());
			this.theirs.delete(id);
			this.speaking.delete(id);
		};
		call.on('close', gone);
		call.on('error', gone);
	}

	#receive(id: string, call: MediaConnection) {
		const received: Received = {};
		for (const [lane, { receiver }] of lanesOf(call)) received[lane] = new MediaStream([receiver.track]);
		const before = this.theirs.get(id);
		const isSame = LANES.every((lane) => before?.[lane]?.getTracks()[0] === received[lane]?.getTracks()[0]);
		if (!isSame) this.theirs.set(id, received);
	}

	/** Puts into every lane what its other end may perceive now, and nothing else. */
	apply(): void {
		for (const [id, call] of this.#calls) {
			const lanes = lanesOf(call);
			for (const [lane, { sender }] of lanes) {
				const wanted = this.#wanted(id, lane, lanes.has('screen'));
				// Where a swap fails nothing is sent at all.
				if (sender.track !== wanted) sender.replaceTrack(wanted).catch(() => sender.replaceTrack(null).catch(() => call.close()));
			}
		}
	}

	/** Looks who is heard. */
	listen(): void {
		for (const [id, call] of this.#calls) {
			const receiver = lanesOf(call).get('mic')?.receiver;
			const level = Math.max(0, ...(receiver?.getSynchronizationSources().map(({ audioLevel }) => audioLevel ?? 0) ?? []));
			if (level > LOUD) this.speaking.add(id);
			else this.speaking.delete(id);
		}
	}

	#wanted(id: string, lane: Lane, hasScreen: boolean): MediaStreamTrack {
		const placeholder = this.#made().of(lane);
		const shown = lane === 'camera' && !hasScreen && this.mine.screen ? 'screen' : lane;
		const track = this.mine[shown];
		return track && this.rules.receives(id, NEEDS[shown]) && this.rules.may(SPEAKS[shown]) ? track : placeholder;
	}

	#made(): Placeholders {
		this.#placeholders ??= new Placeholders();
		return this.#placeholders;
	}

	#start(): MediaStream {
		return new MediaStream(LANES.map((lane) => this.#made().of(lane)));
	}

	end(): void {
		this.#isOver = true;
		for (const lane of LANES) this.mine[lane]?.stop();
		this.mine = {};
		for (const call of this.#calls.values()) call.close();
		this.#placeholders?.end();
	}
}

/** The lanes of a connection: its sound, and its pictures in their order, or as who made the connection named them. */
function lanesOf(call: MediaConnection): Map<Lane, RTCRtpTransceiver> {
	const found = new Map<Lane, RTCRtpTransceiver>();
	const connection = call.peerConnection as RTCPeerConnection | null;
	const isSettled = connection?.signalingState === 'stable';
	const transceivers = connection?.getTransceivers().filter(({ mid }) => !isSettled || mid !== null) ?? [];
	const named: unknown = (call.metadata as { lanes?: unknown } | undefined)?.lanes;
	for (const [i, transceiver] of transceivers.entries()) {
		const isSound = transceiver.receiver.track.kind === 'audio';
		const name: unknown = Array.isArray(named) ? named[i] : undefined;
		const known = LANES.find((lane) => lane === name && (lane === 'mic') === isSound);
		const lane = known ?? (isSound ? 'mic' : found.has('camera') ? 'screen' : 'camera');
		if (!found.has(lane)) found.set(lane, transceiver);
	}
	return found;
}

/** Silence and black that flow: an end that gets nothing could tell that something is withheld, and some stop at that. */
class Placeholders {
	#context = new AudioContext();
	#source = new ConstantSourceNode(this.#context, { offset: 0 });
	#tracks: Record<Lane, MediaStreamTrack>;
	#timer: ReturnType<typeof setInterval>;

	constructor() {
		const silence = new MediaStreamAudioDestinationNode(this.#context, { channelCount: 1 });
		this.#source.connect(silence);
		this.#source.start();
		void this.#context.resume();
		const canvas = Object.assign(document.createElement('canvas'), { width: 320, height: 180 });
		const paint = canvas.getContext('2d', { alpha: false });
		const black = () => paint?.fillRect(0, 0, canvas.width, canvas.height);
		black();
		// A canvas is captured when something is painted.
		this.#timer = setInterval(black, BLACK_MS);
		const [camera] = canvas.captureStream(1000 / BLACK_MS).getVideoTracks();
		const [mic] = silence.stream.getAudioTracks();
		if (!camera || !mic) throw new Error('this browser makes no placeholders');
		this.#tracks = { mic, camera, screen: camera.clone() };
	}

	of(lane: Lane): MediaStreamTrack {
		return this.#tracks[lane];
	}

	laneOf(track: MediaStreamTrack): Lane | undefined {
		return LANES.find((lane) => this.#tracks[lane].id === track.id);
	}

	end(): void {
		clearInterval(this.#timer);
		this.#source.stop();
		for (const track of Object.values(this.#tracks)) track.stop();
		void this.#context.close();
	}
}

function words(lane: Lane, why: unknown): string {
	const what = { mic: 'microphone', camera: 'camera', screen: 'screen' }[lane];
	const name = why instanceof DOMException ? why.name : '';
	if (name === 'NotAllowedError') return lane === 'screen' ? '' : `The browser does not allow the ${what}; allow it for this site and try again.`;
	if (name === 'NotFoundError' || name === 'OverconstrainedError') return `No ${what} was found.`;
	if (name === 'NotReadableError') return `Another program uses the ${what}.`;
	if (name === 'SecurityError') return `Browsers give out the ${what} over https only, or on the hub’s own machine.`;
	return `The ${what} could not be opened.`;
}
