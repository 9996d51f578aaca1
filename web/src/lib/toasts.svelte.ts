// Short words on what was just done.

export interface Toast {
	id: number;
	text: string;
	kind: 'ok' | 'bad';
}

class Toasts {
	list = $state<Toast[]>([]);
	#next = 1;

	say(text: string, kind: Toast['kind'] = 'ok') {
		const id = this.#next++;
		this.list = [...this.list.slice(-3), { id, text, kind }];
		setTimeout(() => this.close(id), 6000);
	}

	close(id: number) {
		this.list = this.list.filter((toast) => toast.id !== id);
	}
}

export const toasts = new Toasts();
