// Where a rule sends messages, in words and from what a person wrote.

import type { Schemas } from '$lib/api/client';

type Target = Schemas['Target'];

export type TargetKind = 'inbox' | 'clients' | 'room' | 'webhook';

export function targetOf(kind: TargetKind, to: string): Target {
	const names = to.split(',').map((name) => name.trim()).filter((name) => name !== '');
	switch (kind) {
		case 'clients':
			return { clients: names.length > 0 ? { to: names } : {} };
		case 'room':
			return { room: { room: to.trim() } };
		case 'webhook':
			return { webhook: { url: to.trim() } };
		default:
			return { inbox: {} };
	}
}

export function told(target: Target): string {
	if ('clients' in target) return target.clients.to ? `to ${target.clients.to.join(', ')}` : 'to all other clients';
	if ('room' in target) return `into the room ${target.room.room}`;
	if ('webhook' in target) return `to ${target.webhook.url}`;
	return 'into the inbox';
}
