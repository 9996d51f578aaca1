// Some things need a proof that whoever signed in is still the one at the page.

import { Failure } from './api/client';

class StepUp {
	isOpen = $state(false);
	#settle: ((proved: boolean) => void) | undefined;

	/** Does it; asks for the proof and does it again where the hub wants one. Undefined if the person declined. */
	async around<T>(doing: () => Promise<T>): Promise<T | undefined> {
		try {
			return await doing();
		} catch (why) {
			if (!(why instanceof Failure && why.code === 'step_up')) throw why;
		}
		this.isOpen = true;
		const proved = await new Promise<boolean>((resolve) => (this.#settle = resolve));
		return proved ? doing() : undefined;
	}

	end(proved: boolean): void {
		this.isOpen = false;
		this.#settle?.(proved);
		this.#settle = undefined;
	}
}

export const stepUp = new StepUp();
