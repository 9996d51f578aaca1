// Runs the browser tests: every file here whose name ends in `.test.mjs`, two at a time, each against a hub and in a
// browser of its own. Arguments choose files by a part of their name.

import { spawnSync } from 'node:child_process';
import { readdirSync } from 'node:fs';
import { dirname, join } from 'node:path';
import { fileURLToPath } from 'node:url';

const here = dirname(fileURLToPath(import.meta.url));
const wanted = process.argv.slice(2);
const files = readdirSync(here)
	.filter((name) => name.endsWith('.test.mjs'))
	.filter((name) => wanted.length === 0 || wanted.some((part) => name.includes(part)))
	.map((name) => join(here, name));
if (files.length === 0) {
	console.error(`no test file has ${wanted.join(' or ')} in its name`);
	process.exit(1);
}
const seconds = Number(process.env.PAGE_TESTS_MOST_S ?? 900);
// One file at a time: two browsers and their hubs are more than two cores keep in time.
// Machines of the tests' own speak WebSocket, which Node 20 has behind a flag and later ones without.
const args = ['--experimental-websocket', '--test', '--test-concurrency=1', '--test-timeout=120000', '--test-reporter=spec', ...files];
const run = spawnSync(process.execPath, args, { stdio: 'inherit', timeout: seconds * 1000 });
if (run.error) console.error(`the tests did not end within ${seconds} s`);
process.exit(run.status ?? 1);
