// What a participant may perceive and do. The hub says who may what; until it has said so about somebody, their kind decides.

export const PERCEIVE = ['read-chat', 'receive-directed', 'read-roster', 'see-screen', 'hear-audio'] as const;
export const ACT = ['send-chat', 'speak', 'act'] as const;

export type Capability = (typeof PERCEIVE)[number] | (typeof ACT)[number];
export type Kind = 'human' | 'agent';

/** What each of them means, for whoever decides on it. */
export const MEANS: Record<Capability, { label: string; hint: string }> = {
	'read-chat': { label: 'Read the chat', hint: 'receives what is said to all, views and schemas' },
	'receive-directed': { label: 'Receive messages', hint: 'receives what is said to it alone' },
	'read-roster': { label: 'See who is here', hint: 'otherwise it sees itself and the hub only' },
	'see-screen': { label: 'See screens', hint: 'receives screens and cameras; otherwise black' },
	'hear-audio': { label: 'Hear sound', hint: 'receives microphones; otherwise silence' },
	'send-chat': { label: 'Write', hint: 'may say anything at all; without it nothing it says arrives' },
	speak: { label: 'Speak', hint: 'its microphone is heard' },
	act: { label: 'Act', hint: 'may ask the application to do something' },
};

export interface Grant {
	capabilities: ReadonlySet<Capability>;
	/** Seconds since 1970, after which nothing of it is left. */
	expiresAt?: number;
	/** The model that is told what this agent perceives. */
	backend?: string;
	/** What it perceives leaves the room. */
	egress: boolean;
}

const ALL: readonly Capability[] = [...PERCEIVE, ...ACT];
const MAX_BACKEND = 80;

export function defaultOf(kind: Kind): Grant {
	const capabilities: readonly Capability[] = kind === 'human' ? ALL : ['read-chat', 'read-roster', 'receive-directed'];
	return { capabilities: new Set(capabilities), egress: false };
}

export const NOTHING: Grant = { capabilities: new Set(), egress: false };

/** Reads a grant. What is unknown is dropped; what does not read as a time ends the grant at once. */
export function readGrant(value: unknown): Grant {
	const read = isRecord(value) ? value : {};
	const side = (list: unknown, known: readonly Capability[]) =>
		Array.isArray(list) ? known.filter((capability) => list.includes(capability)) : [];
	const capabilities = new Set<Capability>([...side(read.perceive, PERCEIVE), ...side(read.act, ACT)]);
	const end = read.expiresAt ?? undefined;
	const expiresAt = end === undefined ? undefined : typeof end === 'number' && Number.isFinite(end) ? Math.floor(end) : 0;
	const backend = disclosed(read.backend);
	return { capabilities, expiresAt, backend, egress: read.egress === true || backend !== undefined };
}

/** As it is asked for: `perceive` and `act` apart. */
export function written(grant: Grant): { perceive: string[]; act: string[]; expiresAt?: number } {
	const side = (list: readonly Capability[]) => list.filter((capability) => grant.capabilities.has(capability));
	return {
		perceive: side(PERCEIVE),
		act: side(ACT),
		...(grant.expiresAt === undefined ? {} : { expiresAt: grant.expiresAt }),
	};
}

/** Whether it includes this at that time, in milliseconds since 1970. */
export function allows(grant: Grant, capability: Capability, now: number): boolean {
	return grant.capabilities.has(capability) && !isOver(grant, now);
}

export function isOver(grant: Grant, now: number): boolean {
	return grant.expiresAt !== undefined && now >= grant.expiresAt * 1000;
}

/** The same with one capability more or less. */
export function changed(grant: Grant, capability: Capability, on: boolean): Grant {
	const capabilities = new Set(grant.capabilities);
	if (on) capabilities.add(capability);
	else capabilities.delete(capability);
	return { ...grant, capabilities };
}

/** The name of a model, as it may be shown. */
export function disclosed(value: unknown): string | undefined {
	return typeof value === 'string' && value !== '' ? [...value].slice(0, MAX_BACKEND).join('') : undefined;
}

export function isRecord(value: unknown): value is Record<string, unknown> {
	return typeof value === 'object' && value !== null && !Array.isArray(value);
}
