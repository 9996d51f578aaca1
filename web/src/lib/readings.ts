// Numbers in a section of telemetry, found by their shape: what a chart can show of any section, known or not.

export interface Reading {
	/** What it is of, where there are several: `C:`, `CPU`. */
	of: string;
	/** The field. */
	field: string;
	value: number;
}

/** Fields that count something else than a state worth watching. */
const NOT_READINGS = /^(pid|index|port|metric|event_id|boot_time_unix|protection_status)$/;
/** Fields that say which element of a list it is. */
const NAMES = ['mount', 'label', 'name', 'model', 'interface', 'source'];
const MOST = 12;

/** The numbers of a section: its own, and those of what it lists by name. */
export function readings(payload: unknown): Reading[] {
	if (typeof payload !== 'object' || payload === null || Array.isArray(payload)) return [];
	const found: Reading[] = [];
	for (const [field, value] of Object.entries(payload)) {
		if (typeof value === 'number' && !NOT_READINGS.test(field)) found.push({ of: '', field, value });
		else if (Array.isArray(value) && value.length <= MOST) found.push(...value.flatMap(ofElement));
	}
	return found;
}

function ofElement(element: unknown): Reading[] {
	if (typeof element !== 'object' || element === null) return [];
	const name = NAMES.map((key) => (element as Record<string, unknown>)[key]).find((name) => typeof name === 'string');
	if (name === undefined) return [];
	return Object.entries(element)
		.filter((entry): entry is [string, number] => typeof entry[1] === 'number' && !NOT_READINGS.test(entry[0]))
		.map(([field, value]) => ({ of: name as string, field, value }));
}

/** The unit that a field's name tells. */
export function unitOf(field: string): 'percent' | 'bytes' | 'celsius' | 'seconds' | '' {
	if (/percent/.test(field)) return 'percent';
	if (/bytes/.test(field)) return 'bytes';
	if (/_c$|celsius/.test(field)) return 'celsius';
	if (/_secs?$|seconds/.test(field)) return 'seconds';
	return '';
}

/** `percent_used` as `percent used`. */
export function words(field: string): string {
	return field.replaceAll('_', ' ');
}

/** `reboot_pending` as `Reboot pending`. */
export function titled(section: string): string {
	const text = words(section);
	return text.charAt(0).toUpperCase() + text.slice(1);
}

/** The runbook `disk-full-runbook` as `Disk full`. */
export function runbookName(id: string): string {
	return titled(id.replace(/-runbook$/, '').replaceAll('-', '_'));
}

/** The field of a section that says most: a percentage before everything else. */
export function mainField(fields: string[]): string {
	return fields.find((field) => /percent/.test(field)) ?? fields.find((field) => unitOf(field) !== '') ?? fields[0] ?? '';
}
