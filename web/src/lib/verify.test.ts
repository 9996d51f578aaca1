import { expect, test } from 'vitest';
import text from '../../../fixtures/journal/export.jsonl?raw';
import { Chain, type Checkpoint, isSigned } from './verify';

const lines = text.trim().split('\n').slice(1);
const records = lines.filter((line) => !line.startsWith('{"checkpoint"'));
const checkpoints = lines.filter((line) => line.startsWith('{"checkpoint"')).map((line) => (JSON.parse(line) as { checkpoint: Checkpoint }).checkpoint);

async function verify(lines: string[]) {
	const chain = new Chain(checkpoints.map(({ seq }) => seq));
	for (const line of lines) {
		const problem = await chain.take(line);
		if (problem) return problem;
	}
	return chain;
}

test('the export that the hub’s own check accepts is whole here, too', async () => {
	const chain = (await verify(records)) as Chain;
	expect(chain.seq).toBe(records.length);
	expect(checkpoints.length).toBeGreaterThan(0);
	for (const checkpoint of checkpoints) {
		expect(chain.at(checkpoint.seq)).toBe(checkpoint.hash);
		expect(await isSigned(checkpoint)).toBe(true);
	}
});

test('a changed, missing or moved record is found, and a forged signature', async () => {
	const changed = records.with(1, (records[1] ?? '').replace('"at":"2', '"at":"3'));
	expect(await verify(changed)).toMatchObject({ seq: 2, what: expect.stringContaining('changed') });
	expect(await verify(records.toSpliced(1, 1))).toMatchObject({ seq: 2, what: expect.stringContaining('should be number 2') });
	expect(await verify([records[1] ?? '', records[0] ?? ''])).toMatchObject({ seq: 1 });
	expect(await verify(['{"oops":1}'])).toMatchObject({ seq: 1, what: expect.stringContaining('one form') });
	const [one] = checkpoints;
	if (one) expect(await isSigned({ ...one, seq: one.seq + 1 })).toBe(false);
});
