// Our own participant, in a process of its own: what it prints, and a way to have it say something.

import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { createInterface } from 'node:readline';
import { program } from '../scripts/hub.mjs';

export async function startAgent(hub, room, transport, ...args) {
	const env = { ...process.env, CONVOKE_HUB: hub.http };
	const all = ['--json', 'room', 'join', '--room', room, '--transport', transport, ...args];
	const child = spawn(program(), all, { env, stdio: ['pipe', 'pipe', 'pipe'] });
	const said = [];
	const waiting = [];
	const note = (line) => {
		said.push(line);
		for (const look of waiting.splice(0)) look();
	};
	createInterface({ input: child.stdout }).on('line', note);
	createInterface({ input: child.stderr }).on('line', note);
	/** The first line that has these words. */
	const hears = async (words) => {
		const signal = AbortSignal.timeout(20_000);
		for (;;) {
			const found = said.find((line) => line.includes(words));
			if (found) return found;
			if (signal.aborted || child.exitCode !== null) throw new Error(`not heard: ${words}; but: ${said.join(' | ')}`);
			await new Promise((resolve) => {
				waiting.push(resolve);
				signal.addEventListener('abort', resolve, { once: true });
				child.once('exit', resolve);
			});
		}
	};
	const stop = async () => {
		if (child.exitCode !== null) return;
		const ended = once(child, 'exit');
		child.kill('SIGTERM');
		await ended;
	};
	return { hears, said, say: (text) => child.stdin.write(`${text}\n`), stop };
}
