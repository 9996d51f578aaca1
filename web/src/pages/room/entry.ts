// What somebody comes to a room with: an invite from the link, a name, and the secret by which they are the same one again.

import { isRecord } from './grants';

export interface Invite {
	text: string;
	name: string;
	isHost: boolean;
	/** Milliseconds since 1970. */
	expiresAt: number;
}

/** The invite of a link: `#invite=…`, or `#room?gt=…` as links of the field have it. */
export function inviteOf(hash: string): string | undefined {
	const text = hash.replace(/^#/, '');
	const parameters = new URLSearchParams(text.includes('?') ? text.slice(text.indexOf('?') + 1) : text);
	return parameters.get('invite') || parameters.get('gt') || undefined;
}

/** What an invite says about itself. The hub checks its signature; this is for showing it. */
export function readInvite(text: string | undefined): Invite | undefined {
	if (!text) return undefined;
	try {
		const base64 = (text.split('.')[0] ?? '').replaceAll('-', '+').replaceAll('_', '/');
		const bytes = Uint8Array.from(atob(base64), (character) => character.charCodeAt(0));
		const body: unknown = JSON.parse(new TextDecoder('utf-8', { fatal: true }).decode(bytes));
		if (!isRecord(body) || typeof body.name !== 'string' || typeof body.exp !== 'number') return undefined;
		return { text, name: body.name, isHost: body.role === 'host', expiresAt: body.exp * 1000 };
	} catch {
		return undefined;
	}
}

/** What a tab keeps of a room, so that a reload finds the same participant. */
export interface Kept {
	token: string;
	invite?: string;
}

const NAME = 'convoke-room-name';

export function keep(room: string, change: Partial<Kept> = {}): Kept {
	const key = `convoke-room:${room}`;
	const kept = { token: '', ...parse(sessionStorage.getItem(key)), ...change };
	if (!kept.token) kept.token = secret();
	sessionStorage.setItem(key, JSON.stringify(kept));
	return kept;
}

/** The name that somebody last used here. */
export function lastName(): string {
	return localStorage.getItem(NAME) ?? '';
}

export function rememberName(name: string): void {
	localStorage.setItem(NAME, name);
}

function secret(): string {
	return [...crypto.getRandomValues(new Uint8Array(18))].map((byte) => byte.toString(16).padStart(2, '0')).join('');
}

function parse(text: string | null): Partial<Kept> {
	try {
		const read: unknown = JSON.parse(text ?? '');
		if (!isRecord(read)) return {};
		const { token, invite } = read;
		return { ...(typeof token === 'string' ? { token } : {}), ...(typeof invite === 'string' ? { invite } : {}) };
	} catch {
		return {};
	}
}
