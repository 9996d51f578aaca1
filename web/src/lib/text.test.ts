import { expect, test } from 'vitest';
import { bytes, count, oneLine, visible } from './text';

test('what cannot be seen is made visible', () => {
	for (const [text, shown] of [
		['plain', 'plain'],
		['a\u001b[31mred', 'a␛[31mred'],
		['exe.\u202Egnp', 'exe.⟨U+202E⟩gnp'],
		['zero\u200Bwidth', 'zero⟨U+200B⟩width'],
		['tag\u{E0041}', 'tag⟨U+E0041⟩'],
		['half\uD800', 'half⟨U+D800⟩'],
		['line\r\nline\tb', 'line\nline\tb'],
		['back\rwards', 'back␍wards'],
		['emoji 🦀 änderung 日本', 'emoji 🦀 änderung 日本'],
	] as const) {
		expect(visible(text)).toBe(shown);
	}
});

test('a name stays on one line', () => {
	expect(oneLine('a\nb\tc')).toBe('a␤b␉c');
});

test('sizes and counts read easily', () => {
	expect([bytes(0), bytes(999), bytes(1400), bytes(25_300_000_000)]).toEqual(['0 B', '999 B', '1.4 kB', '25.3 GB']);
	expect([count(1, 'machine'), count(2, 'machine'), count(0, 'reply', 'replies')]).toEqual([
		'1 machine',
		'2 machines',
		'0 replies',
	]);
});
