// Makes src/lib/api/schema.d.ts from the OpenAPI document of a hub that is started for it; with `--check`, says whether
// it is still the same. `CONVOKE` is the program (default: the debug build beside this folder).

import { readFileSync, writeFileSync } from 'node:fs';
import { dirname, join } from 'node:path';
import { fileURLToPath } from 'node:url';
import openapiTS, { astToString } from 'openapi-typescript';
import { startHub } from './hub.mjs';

const web = dirname(dirname(fileURLToPath(import.meta.url)));
const file = join(web, 'src/lib/api/schema.d.ts');

const hub = await startHub();
let text;
try {
	const document = await (await fetch(`${hub.http}/api/openapi.json`)).json();
	const head = '// Made by `npm run types` from the hub\'s OpenAPI document. Do not change it by hand.\n\n';
	text = head + astToString(await openapiTS(document, { alphabetize: true }));
} finally {
	await hub.stop();
}

if (!process.argv.includes('--check')) {
	writeFileSync(file, text);
} else if (readFileSync(file, 'utf8') !== text) {
	console.error('web/src/lib/api/schema.d.ts is not what the hub\'s API is now: run `npm run types` in web/ and commit it');
	process.exitCode = 1;
}
