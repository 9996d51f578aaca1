// Builds the page into dist/, if what it is made from changed since the last time: cargo and `cargo xtask test` run this.
// Fetches the packages first where they are missing, and lays compressed variants beside the files.

import { execFileSync } from 'node:child_process';
import { createHash } from 'node:crypto';
import { existsSync, readdirSync, readFileSync, statSync, writeFileSync } from 'node:fs';
import { dirname, join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { brotliCompressSync, constants, gzipSync } from 'node:zlib';

const web = dirname(dirname(fileURLToPath(import.meta.url)));
const stamp = join(web, 'dist/.stamp');

// As in crates/page/build.rs.
const SOURCES = ['index.html', 'package-lock.json', 'public', 'scripts/build.mjs', 'src', 'vite.config.ts'];

function* filesBelow(path) {
	if (!statSync(path).isDirectory()) return yield path;
	for (const name of readdirSync(path).sort()) yield* filesBelow(join(path, name));
}

function hashOfSources() {
	const hash = createHash('sha256');
	for (const source of SOURCES) {
		for (const file of filesBelow(join(web, source))) {
			if (file.endsWith('.test.ts')) continue;
			hash.update(file.slice(web.length)).update('\0').update(readFileSync(file)).update('\0');
		}
	}
	return hash.digest('hex');
}

function npm(...args) {
	const isWindows = process.platform === 'win32';
	// What npm says goes to standard error: cargo reads the other.
	execFileSync(isWindows ? 'npm.cmd' : 'npm', args, { cwd: web, stdio: ['ignore', 2, 2], shell: isWindows });
}

function lacksPackages() {
	const installed = join(web, 'node_modules/.package-lock.json');
	return !existsSync(installed) || statSync(installed).mtimeMs < statSync(join(web, 'package-lock.json')).mtimeMs;
}

function compress() {
	for (const file of filesBelow(join(web, 'dist'))) {
		if (!/\.(js|css|html|svg|json|webmanifest)$/.test(file)) continue;
		const text = readFileSync(file);
		const best = { params: { [constants.BROTLI_PARAM_QUALITY]: 11, [constants.BROTLI_PARAM_SIZE_HINT]: text.length } };
		writeFileSync(`${file}.br`, brotliCompressSync(text, best));
		writeFileSync(`${file}.gz`, gzipSync(text, { level: 9 }));
	}
}

const now = hashOfSources();
if (existsSync(stamp) && readFileSync(stamp, 'utf8') === now) {
	console.error('the page is up to date');
} else {
	// No scripts: nothing that is installed here needs to run anything to be there. Not `npm ci`: it refuses a lock
	// without the packages of other platforms, which not every registry offers; this leaves the lock as it is.
	if (lacksPackages()) npm('install', '--no-save', '--ignore-scripts', '--no-audit', '--no-fund');
	npm('run', '--silent', 'build');
	compress();
	writeFileSync(stamp, now);
}
