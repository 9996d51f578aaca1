// Passkeys: what the hub asks, what the browser answers.

import { send } from './api/client';

export interface Support {
	available: boolean;
	relying_party?: string;
	reason?: string;
	url?: string;
}

interface Challenge {
	challenge_id: string;
	options: { publicKey: PublicKeyCredentialCreationOptionsJSON & PublicKeyCredentialRequestOptionsJSON };
}

/** Whether passkeys can be used here, and if not, why. */
export async function support(): Promise<Support> {
	if (typeof PublicKeyCredential === 'undefined' || !('parseRequestOptionsFromJSON' in PublicKeyCredential)) {
		return { available: false, reason: 'this browser has no passkeys' };
	}
	return send<Support>('GET', '/api/session/passkey').catch(() => ({ available: false }));
}

/** Shows a passkey: it signs in, or in a session counts as a step-up. */
export async function show(): Promise<void> {
	const { challenge_id, options } = await send<Challenge>('POST', '/api/session/passkey/challenge');
	const publicKey = PublicKeyCredential.parseRequestOptionsFromJSON(options.publicKey);
	const credential = await answered(() => navigator.credentials.get({ publicKey }));
	await send('POST', '/api/session/passkey', { challenge_id, credential: credential.toJSON() });
}

/** Makes a passkey for whoever is signed in. */
export async function add(user: string, name: string): Promise<void> {
	const path = `/api/users/${encodeURIComponent(user)}/passkeys`;
	const { challenge_id, options } = await send<Challenge>('POST', `${path}/challenge`);
	const publicKey = PublicKeyCredential.parseCreationOptionsFromJSON(options.publicKey);
	const credential = await answered(() => navigator.credentials.create({ publicKey }));
	await send('POST', path, { challenge_id, ...(name ? { name } : {}), credential: credential.toJSON() });
}

async function answered(asking: () => Promise<Credential | null>): Promise<PublicKeyCredential> {
	let credential: Credential | null;
	try {
		credential = await asking();
	} catch (why) {
		throw new Error(reasonOf(why));
	}
	if (!(credential instanceof PublicKeyCredential)) throw new Error('the browser gave no passkey');
	return credential;
}

function reasonOf(why: unknown): string {
	const name = why instanceof DOMException ? why.name : '';
	if (name === 'NotAllowedError') return 'it was cancelled, took too long, or there is no passkey for this hub here';
	if (name === 'InvalidStateError') return 'this device has a passkey for you already';
	return why instanceof Error ? why.message : String(why);
}
