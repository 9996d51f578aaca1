// The lanes of a media connection, as the page shows them; what is behind them is loaded with the mesh.

export const LANES = ['mic', 'camera', 'screen'] as const;
export type Lane = (typeof LANES)[number];
export type Tracks = Partial<Record<Lane, MediaStreamTrack>>;
export type Received = Partial<Record<Lane, MediaStream>>;

export interface MediaView {
	/** What this participant shows. */
	readonly mine: Tracks;
	/** What comes from the others; placeholders among it. */
	readonly theirs: ReadonlyMap<string, Received>;
	/** Whose microphone is heard at this moment. */
	readonly speaking: ReadonlySet<string>;
	/** Why the last device could not be used. */
	readonly trouble: string;
	readonly inputs: MediaDeviceInfo[];
	readonly chosen: { mic?: string; camera?: string };
	toggle(lane: Lane): Promise<void>;
	choose(lane: 'mic' | 'camera', device: string): Promise<void>;
}
