// Whether "go to anything" is open.

class PaletteState {
	isOpen = $state(false);
}

export const palette = new PaletteState();
