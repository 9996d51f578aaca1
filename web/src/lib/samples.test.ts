import { expect, test } from 'vitest';
import { withGaps } from './samples';

const at = (...times: number[]) => times.map((at) => ({ at, value: at }));

test('no line is drawn over a time of which nothing is known', () => {
	expect(withGaps(at(0, 10, 20, 90, 100), 1).map(({ value }) => value)).toEqual([0, 10, 20, null, 90, 100]);
	expect(withGaps(at(0, 10, 20, 90, 100), 30).map(({ value }) => value)).toEqual([0, 10, 20, 90, 100]);
	expect(withGaps(at(0, 1000), 1).map(({ value }) => value)).toEqual([0, 1000]);
	expect(withGaps([], 1)).toEqual([]);
});
