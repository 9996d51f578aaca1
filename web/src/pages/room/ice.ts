// Where WebRTC connections find their way around address translation: what the hub offers for the room, if it does.

import { isRecord } from './grants';

/** Credentials of the hub live ten minutes: asked anew well before. */
const KEEP_MS = 5 * 60_000;

let kept: { room: string; at: number; servers: RTCIceServer[] } | undefined;

export async function iceServers(room: string, invite: string | undefined): Promise<RTCIceServer[]> {
	if (kept && kept.room === room && Date.now() - kept.at < KEEP_MS) return kept.servers;
	const headers: Record<string, string> = invite ? { authorization: `Bearer ${invite}` } : {};
	const servers: RTCIceServer[] = [];
	try {
		const response = await fetch(`/api/turn?room=${encodeURIComponent(room)}`, { headers });
		const body: unknown = response.ok ? await response.json() : undefined;
		if (isRecord(body) && Array.isArray(body.iceServers)) servers.push(...(body.iceServers as RTCIceServer[]));
	} catch {
		// Without any, connections are made directly.
	}
	kept = { room, at: Date.now(), servers };
	return servers;
}
