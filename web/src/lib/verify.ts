// The journal checked by the browser itself, as docs/journal.md has it: every record's hash, that each continues the one
// before, and the hub's signatures under the chain.

export interface Checkpoint {
	hub_id: string;
	seq: number;
	hash: string;
	at: string;
	public_key: string;
	signature: string;
}

/** A place in the chain, to be held against later. */
export interface Place {
	hub_id: string;
	seq: number;
	hash: string;
	public_key: string;
	at: string;
}

export interface Problem {
	seq: number;
	what: string;
}

const LABEL = 'convoke-journal-v1\0';
const CHECKPOINT_LABEL = 'convoke-journal-checkpoint-v1\0';
const FIRST = '0'.repeat(64);

const encoder = new TextEncoder();

/** Takes records one by one, in order, and says what is wrong with the first that is. */
export class Chain {
	seq = 0;
	hash = FIRST;
	hubId = '';
	/** The hashes of the places that are asked about. */
	readonly #wanted: Map<number, string | undefined>;

	constructor(places: number[]) {
		this.#wanted = new Map(places.map((seq) => [seq, undefined]));
	}

	/** The hash of one of the places that were asked about; undefined where the chain has not come to it. */
	at(seq: number): string | undefined {
		return this.#wanted.get(seq);
	}

	async take(line: string): Promise<Problem | undefined> {
		const wrong = (what: string): Problem => ({ seq: this.seq + 1, what });
		const cut = /^(.*),"hash":"([0-9a-f]{64})"\}$/s.exec(line);
		if (!cut) return wrong('it is not in the one form that a record has');
		const canonical = `${cut[1]}}`;
		let record: { hub_id?: unknown; seq?: unknown; prev?: unknown };
		try {
			record = JSON.parse(canonical) as typeof record;
		} catch {
			return wrong('it is no JSON');
		}
		if (record.seq !== this.seq + 1) return wrong(`it should be number ${this.seq + 1} and is ${String(record.seq)}`);
		if (this.hubId !== '' && record.hub_id !== this.hubId) return wrong('it is of another hub');
		if (record.prev !== this.hash) return wrong('it does not continue the record before it');
		const hash = hex(await crypto.subtle.digest('SHA-256', encoder.encode(LABEL + canonical)));
		if (hash !== cut[2]) return wrong('its content was changed: it does not have its hash');
		this.seq += 1;
		this.hash = hash;
		this.hubId = String(record.hub_id);
		if (this.#wanted.has(this.seq)) this.#wanted.set(this.seq, hash);
		return undefined;
	}
}

/** Whether a checkpoint is signed with the key that it names. */
export async function isSigned(checkpoint: Checkpoint): Promise<boolean> {
	const seq = new DataView(new ArrayBuffer(8));
	seq.setBigUint64(0, BigInt(checkpoint.seq));
	const at = new DataView(new ArrayBuffer(8));
	at.setBigInt64(0, BigInt(Date.parse(checkpoint.at)));
	const signed = joined([
		encoder.encode(`${CHECKPOINT_LABEL}${checkpoint.hub_id}\0`),
		new Uint8Array(seq.buffer),
		bytesOfHex(checkpoint.hash),
		new Uint8Array(at.buffer),
	]);
	const key = await crypto.subtle.importKey('raw', bytesOfBase64(checkpoint.public_key), 'Ed25519', false, ['verify']);
	return crypto.subtle.verify('Ed25519', key, bytesOfBase64(checkpoint.signature), signed);
}

function hex(bytes: ArrayBuffer): string {
	return [...new Uint8Array(bytes)].map((byte) => byte.toString(16).padStart(2, '0')).join('');
}

function bytesOfHex(text: string): Uint8Array<ArrayBuffer> {
	return Uint8Array.from(text.match(/../g) ?? [], (pair) => Number.parseInt(pair, 16));
}

function bytesOfBase64(text: string): Uint8Array<ArrayBuffer> {
	return Uint8Array.from(atob(text), (character) => character.charCodeAt(0));
}

function joined(parts: Uint8Array[]): Uint8Array<ArrayBuffer> {
	const all = new Uint8Array(parts.reduce((sum, part) => sum + part.length, 0));
	let at = 0;
	for (const part of parts) {
		all.set(part, at);
		at += part.length;
	}
	return all;
}
