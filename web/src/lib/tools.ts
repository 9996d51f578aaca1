// What can be asked of a machine, and how.

import { send } from './api/client';

export interface Schema {
	type?: string | string[];
	title?: string;
	description?: string;
	enum?: unknown[];
	default?: unknown;
	items?: Schema;
	properties?: Record<string, Schema>;
	required?: string[];
	minimum?: number;
	maximum?: number;
}

export interface Tool {
	name: string;
	description: string;
	effect: 'observe' | 'interact' | 'manage';
	probe: boolean;
	mutating: boolean;
	destructive: boolean;
	input_schema: Schema;
}

const WORDS = { observe: 'Look', interact: 'Interact', manage: 'Change' };

/** Tools by what they do, then probes by their pack. */
export function grouped(tools: Tool[]): [group: string, tools: Tool[]][] {
	const groups = new Map<string, Tool[]>();
	for (const tool of tools) {
		const group = tool.probe ? `Probes: ${tool.name.split('.')[0] ?? ''}` : WORDS[tool.effect];
		groups.set(group, [...(groups.get(group) ?? []), tool]);
	}
	return [...groups];
}

/** The tools and probes of a machine. */
export async function toolsOf(machine: string): Promise<Tool[]> {
	return (await send<{ tools: Tool[] }>('GET', `/api/agents/${encodeURIComponent(machine)}/tools`)).tools;
}

export type Kind = 'text' | 'number' | 'integer' | 'yes' | 'choice' | 'lines' | 'json';

/** The control that fits a value. */
export function kindOf(schema: Schema): Kind {
	const type = Array.isArray(schema.type) ? schema.type.find((one) => one !== 'null') : schema.type;
	if (schema.enum) return 'choice';
	if (type === 'boolean') return 'yes';
	if (type === 'integer' || type === 'number') return type;
	if (type === 'string') return 'text';
	if (type === 'array' && (schema.items?.type ?? 'string') === 'string') return 'lines';
	return 'json';
}

/** What a person wrote, as the value that the tool wants; undefined where it was left out. Throws with what is wrong. */
export function read(name: string, schema: Schema, written: string | boolean): unknown {
	const kind = kindOf(schema);
	if (kind === 'yes') return written === true ? true : written === '' || written === false ? undefined : written;
	const text = String(written);
	if (text === '') return undefined;
	switch (kind) {
		case 'number':
		case 'integer': {
			const number = Number(text);
			if (!Number.isFinite(number) || (kind === 'integer' && !Number.isInteger(number))) {
				throw new Error(`${name} must be ${kind === 'integer' ? 'a whole number' : 'a number'}`);
			}
			return number;
		}
		case 'lines':
			return text.split('\n').map((line) => line.trim()).filter((line) => line !== '');
		case 'choice':
			return schema.enum?.find((one) => String(one) === text) ?? text;
		case 'json':
			try {
				return JSON.parse(text);
			} catch {
				throw new Error(`${name} must be JSON`);
			}
		default:
			return text;
	}
}
