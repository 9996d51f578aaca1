// Times as people read them, in the reader's own zone.

const exactly = new Intl.DateTimeFormat(undefined, { dateStyle: 'full', timeStyle: 'long' });
const today = new Intl.DateTimeFormat(undefined, { timeStyle: 'medium' });
const thatDay = new Intl.DateTimeFormat(undefined, { dateStyle: 'medium', timeStyle: 'short' });

const STEPS: [limit: number, size: number, unit: string][] = [
	[60, 1, 's'],
	[3600, 60, 'min'],
	[86_400, 3600, 'h'],
	[30 * 86_400, 86_400, 'd'],
];

/** `12 s`, `3 min`, `2 h`, `5 d`; beyond a month, nothing. */
export function span(seconds: number): string | undefined {
	const whole = Math.max(0, Math.round(seconds));
	const step = STEPS.find(([limit]) => whole < limit);
	return step && `${Math.floor(whole / step[1])} ${step[2]}`;
}

/** `12 s ago`, `in 3 min`, or the date. */
export function relative(at: number, now: number): string {
	const seconds = (now - at) / 1000;
	const words = span(Math.abs(seconds));
	if (words === undefined) return thatDay.format(at);
	if (Math.abs(seconds) < 1) return 'now';
	return seconds >= 0 ? `${words} ago` : `in ${words}`;
}

/** The time of day, with the date unless it is today. */
export function clock(at: number, now: number): string {
	return new Date(at).toDateString() === new Date(now).toDateString() ? today.format(at) : thatDay.format(at);
}

/** Everything: the day, the second and the zone. */
export function exact(at: number): string {
	return exactly.format(at);
}
