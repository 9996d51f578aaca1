// Scopes as people write them.

/** `a, b` as a list; null where nothing is written: an absent list narrows nothing. */
export function listed(text: string): string[] | null {
	const parts = text.split(',').map((part) => part.trim()).filter((part) => part !== '');
	return parts.length > 0 ? parts : null;
}
