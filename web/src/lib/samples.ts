// Samples over time, made ready for a chart.

/** A gap longer than so many usual distances is one: nothing was heard then. */
const GAP = 3;

/** Puts a moment without a value into each gap, so that no line is drawn over a time of which nothing is known. */
export function withGaps<T>(samples: { at: number; value: T }[], stepMs: number): { at: number; value: T | null }[] {
	const distances = samples.slice(1).map(({ at }, i) => at - (samples[i]?.at ?? at));
	const usual = distances.toSorted((a, b) => a - b)[Math.floor(distances.length / 2)] ?? 0;
	const most = GAP * Math.max(usual, stepMs);
	return samples.flatMap((sample, i) => {
		const before = samples[i - 1];
		return before && sample.at - before.at > most ? [{ at: before.at + 1, value: null }, sample] : [sample];
	});
}
