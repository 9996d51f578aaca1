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
}

export interface Runbook {
	id: string;
	category: string;
	description?: string;
	steps?: { probe: string }[];
	one_of?: string[];
}

interface Diagnosis {
	meta: { summaryText: string; durationMs: number };
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
		const { meta, probes, findings } = await send<Diagnosis>('POST', '/api/v1/diagnose', { agent: machine, category });
		const data = Object.fromEntries(
			Object.entries(probes).map(([name, { status, data, error, reason }]) => [name, data ?? error ?? reason ?? status]),
		);
		return { state: 'ok', summary: meta.summaryText, findings, data, ms: meta.durationMs };
	} catch (why) {
		return { state: 'failed', summary: asFailure(why).message, findings: [] };
	}
}

/** What was found last, by what was run and where; for as long as the page is open. */
const before = new Map<string, unknown>();

/** Keeps a result, and says whether it is the same as the one before; undefined the first time. */
export function compare(what: string, machine: string, result: Result): { isSame: boolean; was: unknown } | undefined {
	const key = `${what} ${machine}`;
	const had = before.has(key);
	const was = before.get(key);
	before.set(key, result.data);
	return had ? { isSame: JSON.stringify(was) === JSON.stringify(result.data), was } : undefined;
}

const RANK = ['critical', 'error', 'warning', 'info', 'ok'];

/** The worst first. */
export function worstFirst<T extends { severity: string }>(findings: T[]): T[] {
	return findings.toSorted((a, b) => RANK.indexOf(a.severity) - RANK.indexOf(b.severity));
}
