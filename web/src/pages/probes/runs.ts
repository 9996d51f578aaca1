// Runs of probes and runbooks, and how one differs from the one before.

import { send } from '$lib/api/client';
import { type Args, call } from '$lib/calls';
import { asFailure } from '$lib/resource.svelte';

export interface Finding {
	severity: string;
	title: string;
	detail?: string;
	remediation?: string | null;
}

export interface Result {
	state: 'running' | 'ok' | 'failed' | 'waiting';
	summary: string;
	findings: Finding[];
	/** What the machine gave, without what changes each time. */
	data?: unknown;
	ms?: number;
	approval?: string;
	/** The id of the runbook, of a run of one. */
	runbook?: string;
}

export interface Runbook {
	id: string;
	category: string;
	description?: string;
	steps?: { probe: string }[];
	one_of?: string[];
}

export interface Diagnosis {
	meta: { summaryText: string; durationMs: number; runbookId: string };
	probes: Record<string, { status: string; data?: unknown; error?: string; reason?: string }>;
	findings: Finding[];
}

export async function runProbe(machine: string, probe: string, args: Args): Promise<Result> {
	const outcome = await call(machine, probe, args);
	switch (outcome.state) {
		case 'done': {
			const data = (outcome.result as { data?: unknown } | null)?.data ?? outcome.result;
			return { state: 'ok', summary: 'answered', findings: [], data, ms: outcome.ms };
		}
		case 'waiting':
			return { state: 'waiting', summary: 'waits for a person', findings: [], approval: outcome.approval };
		case 'failed':
			return { state: 'failed', summary: `${outcome.code}: ${outcome.message}`, findings: [], ms: outcome.ms };
		case 'refused':
			return { state: 'failed', summary: outcome.failure.message, findings: [] };
		default:
			return { state: 'running', summary: '', findings: [] };
	}
}

export async function runRunbook(machine: string, category: string): Promise<Result> {
	try {
		const diagnosis = await send<Diagnosis>('POST', '/api/v1/diagnose', { agent: machine, category });
		const { meta, findings } = diagnosis;
		return { state: 'ok', summary: meta.summaryText, findings, data: dataOf(diagnosis), ms: meta.durationMs, runbook: meta.runbookId };
	} catch (why) {
		return { state: 'failed', summary: asFailure(why).message, findings: [] };
	}
}

/** What each probe of a run gave: its data, or why there is none. */
export function dataOf({ probes }: Pick<Diagnosis, 'probes'>): Record<string, unknown> {
	return Object.fromEntries(
		Object.entries(probes).map(([name, { status, data, error, reason }]) => [name, data ?? error ?? reason ?? status]),
	);
}

/** A run of a runbook that the hub kept. */
export interface Run {
	id: string;
	agent: string;
	runbook: string;
	who?: string;
	at: string;
	status: string;
	titles: string[];
	summary: string;
}

export interface ShownRun {
	run: Run;
	/** Absent for who may not read it. */
	result?: Diagnosis & { truncated?: boolean };
	/** The one before it. */
	before?: string;
}

export const oneRun = (id: string) => send<ShownRun>('GET', `/api/runs/${encodeURIComponent(id)}`);

/** The runs of a runbook on a machine that the hub kept, newest first. */
export async function runsOf(machine: string, runbook: string, limit: number): Promise<Run[]> {
	const query = new URLSearchParams({ agent: machine, runbook, limit: String(limit) });
	return (await send<{ runs: Run[] }>('GET', `/api/runs?${query}`)).runs;
}

/** How a result differs from the one before. */
export interface Compared {
	/** Whether there was one before. */
	had: boolean;
	isSame: boolean;
	was: unknown;
	/** When that was, of a run that the hub kept. */
	at?: string;
	/** The run, where the hub kept it. */
	run?: string;
}

/** What probes gave last, by what was run and where; for as long as the page is open. */
const before = new Map<string, unknown>();

/** Keeps what a probe gave, and holds it against the one before. */
export function compare(what: string, machine: string, data: unknown): Compared {
	const key = `${what} ${machine}`;
	const had = before.has(key);
	const was = before.get(key);
	before.set(key, data);
	return { had, isSame: isSame(was, data), was };
}

/** Holds a run that just ended against the one that the hub kept before, from whichever browser it was run. */
export async function compareRun(machine: string, result: Result): Promise<Compared | undefined> {
	if (!result.runbook) return undefined;
	const [run, earlier] = await runsOf(machine, result.runbook, 2);
	const kept = earlier && (await oneRun(earlier.id)).result;
	if (!kept || kept.truncated) return run && { had: false, isSame: true, was: undefined, run: run.id };
	const was = dataOf(kept);
	return { had: true, isSame: isSame(was, result.data), was, at: earlier.at, run: run?.id };
}

export function isSame(a: unknown, b: unknown): boolean {
	return JSON.stringify(a) === JSON.stringify(b);
}

const RANK = ['critical', 'error', 'warning', 'info', 'ok'];

/** The worst first. */
export function worstFirst<T extends { severity: string }>(findings: T[]): T[] {
	return findings.toSorted((a, b) => RANK.indexOf(a.severity) - RANK.indexOf(b.severity));
}
