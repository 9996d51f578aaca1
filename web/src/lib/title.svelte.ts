// What the page that is shown is about, for the title of the tab.

class Title {
	subject = $state('');
}

export const title = new Title();

/** Names what is shown, for as long as a component lives. */
export function useTitle(subject: () => string): void {
	$effect(() => {
		title.subject = subject();
		return () => {
			title.subject = '';
		};
	});
}
