// One clock for the whole page: every "3 min ago" moves together.

let now = $state(Date.now());
let readers = 0;
let timer: ReturnType<typeof setInterval> | undefined;

/** The present, to the second, kept while something on the screen reads it. */
export function useNow(): { readonly value: number } {
	$effect(() => {
		if (readers++ === 0) now = Date.now();
		timer ??= setInterval(() => (now = Date.now()), 1000);
		return () => {
			readers -= 1;
			if (readers > 0) return;
			clearInterval(timer);
			timer = undefined;
		};
	});
	return {
		get value() {
			return now;
		},
	};
}
