// Names of files on machines, which have their own ideas of what stands between folders.

/** What stands between the folders of a path on a machine. */
export function separator(isWindows: boolean): string {
	return isWindows ? '\\' : '/';
}

export function join(folder: string, name: string, isWindows: boolean): string {
	const between = separator(isWindows);
	return folder.endsWith(between) || (isWindows && folder.endsWith('/')) ? folder + name : folder + between + name;
}

/** The folders on the way to a path, each with its own path. */
export function crumbs(path: string, isWindows: boolean): { name: string; path: string }[] {
	const between = separator(isWindows);
	const parts = path.split(isWindows ? /[\\/]+/ : /\/+/).filter((part) => part !== '');
	const found = isWindows ? [] : [{ name: '/', path: '/' }];
	let so = '';
	for (const part of parts) {
		so = so === '' ? (isWindows ? part : `/${part}`) : so + between + part;
		// A drive alone is where its programs happen to be; with the separator it is its root.
		found.push({ name: part, path: /^[A-Za-z]:$/.test(so) ? so + between : so });
	}
	return found;
}
