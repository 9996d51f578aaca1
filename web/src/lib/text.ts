// What machines, models and people say is data: nothing in it may hide, reorder or imitate what stands around it.

/** Controls, marks that turn the direction of writing, invisible and tag characters, and halves of pairs. */
const HIDDEN =
	/[\u0000-\u0008\u000B-\u001F\u007F-\u009F\u00AD\u061C\u180E\u200B-\u200F\u2028-\u202E\u2060-\u206F\uFEFF\uFFF9-\uFFFB]|[\u{E0000}-\u{E0FFF}]|[\uD800-\uDFFF]/gu;

const PLAIN = /^[ -~]*$/;

/** The text with every character that cannot be seen made visible. Line ends and tabs stay. */
export function visible(text: string): string {
	// Nearly everything is this, and lists show thousands of texts.
	if (PLAIN.test(text)) return text;
	return text.replace(/\r\n/g, '\n').replace(HIDDEN, (character) => {
		const code = character.codePointAt(0) ?? 0;
		if (code < 0x20) return String.fromCodePoint(0x2400 + code);
		if (code === 0x7f) return '\u2421';
		return `⟨U+${code.toString(16).toUpperCase().padStart(4, '0')}⟩`;
	});
}

/** The same on one line. */
export function oneLine(text: string): string {
	return PLAIN.test(text) ? text : visible(text).replaceAll('\n', '\u2424').replaceAll('\t', '\u2409');
}

/** A value as a person reads it: text as it is, everything else as JSON. */
export function shown(value: unknown): string {
	return typeof value === 'string' ? value : (JSON.stringify(value, null, 2) ?? '');
}

/** `1.4 GB`. */
export function bytes(count: number): string {
	const units = ['B', 'kB', 'MB', 'GB', 'TB'];
	let unit = 0;
	let rest = count;
	while (rest >= 1000 && unit < units.length - 1) {
		rest /= 1000;
		unit += 1;
	}
	return `${unit === 0 || rest >= 100 ? Math.round(rest) : rest.toFixed(1)} ${units[unit]}`;
}

/** `1 machine`, `2 machines`. */
export function count(number: number, noun: string, plural = `${noun}s`): string {
	return `${number.toLocaleString()} ${number === 1 ? noun : plural}`;
}
