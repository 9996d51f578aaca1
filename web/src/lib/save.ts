/** Gives the reader a file. */
export function save(name: string, kind: string, content: string): void {
	const link = document.createElement('a');
	link.href = URL.createObjectURL(new Blob([content], { type: kind }));
	link.download = name;
	link.click();
	setTimeout(() => URL.revokeObjectURL(link.href), 10_000);
}
