import { expect, test } from 'vitest';
import { mainField, readings, unitOf } from './readings';

test('numbers are found in a section and in what it lists by name', () => {
	const disk = {
		status: 'ok',
		volumes: [
			{ mount: 'C:', percent_used: 91.2, total_bytes: 5 },
			{ mount: 'D:', percent_used: 20, total_bytes: 7 },
		],
		top_dirs: [],
	};
	expect(readings(disk)).toEqual([
		{ of: 'C:', field: 'percent_used', value: 91.2 },
		{ of: 'C:', field: 'total_bytes', value: 5 },
		{ of: 'D:', field: 'percent_used', value: 20 },
		{ of: 'D:', field: 'total_bytes', value: 7 },
	]);
	expect(readings({ available: 3, packages: [{ id: 'a' }] })).toEqual([{ of: '', field: 'available', value: 3 }]);
});

test('what is no section has none', () => {
	for (const other of [null, 'text', 7, undefined, [1, 2]]) expect(readings(other)).toEqual([]);
	expect(readings({ list: Array.from({ length: 50 }, (_, i) => ({ name: String(i), cpu: i })) })).toEqual([]);
});

test('a percentage says most', () => {
	expect(mainField(['total_bytes', 'percent_used'])).toBe('percent_used');
	expect(mainField(['count', 'temperature_c'])).toBe('temperature_c');
	expect(unitOf('swap_used_bytes')).toBe('bytes');
});
