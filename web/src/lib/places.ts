// Places of the page, found by a few letters of their names.

export interface Place {
	title: string;
	hint: string;
	/** Where it is; an action, if absent. */
	href?: string;
	/** What it does. */
	run?: () => void;
}

/** The places that fit best: those whose words begin with what was written before those that only contain it. */
export function find(places: Place[], text: string, most: number): Place[] {
	const words = text.toLowerCase().split(/\s+/).filter(Boolean);
	if (words.length === 0) return places.slice(0, most);
	const found: { place: Place; rank: number }[] = [];
	for (const place of places) {
		const title = place.title.toLowerCase();
		let rank = 0;
		for (const word of words) {
			const at = title.indexOf(word);
			if (at < 0) {
				rank = -1;
				break;
			}
			rank += at === 0 ? 3 : /[\s:._-]/.test(title[at - 1] ?? '') ? 2 : 1;
		}
		// Of those that fit alike the shorter is meant.
		if (rank > 0) found.push({ place, rank: rank - title.length / 1000 });
	}
	return found.sort((a, b) => b.rank - a.rank).slice(0, most).map(({ place }) => place);
}
