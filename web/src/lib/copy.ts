// Files copied from a machine and to one: a call through the gate, and the bytes beside it.

import { download, send, upload } from './api/client';
import { type Args, call, type Outcome, waitFor } from './calls';

/** Longest time for one copy. */
const LONGEST_S = 3600;
/** A browser holds the whole file: more than this is for `convoke cp`. */
export const MOST_BYTES = 1_000_000_000;

type Tell = (outcome: Outcome) => void;
interface Copied {
	size: number;
	sha256: string;
}

/** Fetches a file; nothing, if the call did not come to it, as `tell` was told. */
export async function getFile(machine: string, path: string, tell: Tell): Promise<Blob | undefined> {
	const copied = await copy(machine, 'file_get', (url) => ({ path, url }), download, tell);
	if (!copied) return undefined;
	const { moved, told } = copied;
	const sum = await sha256(moved);
	if (moved.size !== told.size || (sum !== undefined && sum !== told.sha256)) {
		throw new Error('what arrived is not the file that the machine sent; nothing was kept');
	}
	return moved;
}

/** Puts a file into a place on a machine. Whether it is there. */
export async function putFile(machine: string, path: string, file: Blob, tell: Tell): Promise<boolean> {
	if (file.size > MOST_BYTES) throw new Error('it is too large for a browser; `convoke cp` copies files of any size');
	const sum = await sha256(file);
	if (sum === undefined) throw new Error('browsers compute checksums on pages over https or on the hub’s own machine only; use `convoke cp`');
	const args = (url: string) => ({ path, url, sha256: sum, size: file.size });
	return (await copy(machine, 'file_put', args, (door) => upload(door, file), tell)) !== undefined;
}

/** Runs the call and the copy side by side. */
async function copy<T>(
	machine: string,
	tool: string,
	args: (url: string) => Args,
	move: (door: string) => Promise<T>,
	tell: Tell,
): Promise<{ moved: T; told: Copied } | undefined> {
	const doors = `/api/agents/${encodeURIComponent(machine)}/files`;
	const link = await send<{ id: string; url: string }>('POST', doors);
	const door = `${doors}/${link.id}`;
	const asked = toItsEnd(machine, tool, args(link.url), tell);
	const moving = isOpen(door, asked).then((open) => (open ? move(`${door}/data`) : undefined));
	// What went wrong is in the call, where there is one.
	moving.catch(() => {});
	const end = await asked;
	if (end.state !== 'done') return undefined;
	const moved = await moving;
	return moved === undefined ? undefined : { moved, told: end.result as Copied };
}

async function toItsEnd(machine: string, tool: string, args: Args, tell: Tell): Promise<Outcome> {
	let outcome = await call(machine, tool, args, LONGEST_S);
	tell(outcome);
	if (outcome.state === 'waiting') {
		outcome = (await waitFor(outcome.callId, () => true)) ?? outcome;
		tell(outcome);
	}
	return outcome;
}

/** Waits until the machine has come for the file; a person may have to say yes before. False when the call has ended. */
async function isOpen(door: string, asked: Promise<Outcome>): Promise<boolean> {
	const ended = asked.then(() => 'ended' as const);
	for (;;) {
		const looked = send<{ state: string }>('GET', `${door}?wait_s=20`).then(({ state }) => state);
		const state = await Promise.race([looked, ended]);
		if (state === 'open') return true;
		if (state === 'ended') return (await looked.catch(() => '')) === 'open';
	}
}

async function sha256(file: Blob): Promise<string | undefined> {
	if (!globalThis.crypto?.subtle) return undefined;
	const digest = await crypto.subtle.digest('SHA-256', await file.arrayBuffer());
	return [...new Uint8Array(digest)].map((byte) => byte.toString(16).padStart(2, '0')).join('');
}
