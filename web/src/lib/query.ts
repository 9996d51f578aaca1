// The query language for machines, read as the hub reads it (crates/core/src/query.rs): ten thousand machines are filtered
// with every key that is pressed. Both are held to fixtures/query/cases.json.
//
//   query = and { "OR" and } ;  and = not { ["AND"] not } ;  not = "NOT" not | "(" query ")" | term
//   term  = [field ":"] text ; a text with blanks or brackets stands in quotes; `*` stands for anything

export interface Facts {
	/** The values of a field, in lower case. */
	of(field: Field): string[];
}

export type Query = (facts: Facts) => boolean;

export class QueryError extends Error {}

/** What each field can be; anything, where the list is empty. */
const FIELDS = {
	id: [],
	name: [],
	tag: [],
	health: ['ok', 'warn', 'crit', 'unknown'],
	protocol: ['kenny', 'sonde', 'yonexus', 'kibitz'],
	version: [],
	os: ['linux', 'windows', 'macos', 'other'],
	state: ['online', 'unstable', 'offline'],
	trust: ['unpaired', 'pending', 'trusted', 'revoked'],
	online: ['true', 'false'],
} as const;

export type Field = keyof typeof FIELDS;

export const FIELD_NAMES = Object.keys(FIELDS) as Field[];

const MAX_DEPTH = 32;

type Token = '(' | ')' | { text: string; plain: number };

export function parse(text: string): Query {
	const tokens = tokenize(text);
	let at = 0;

	const isWord = (token: Token | undefined, word: string) =>
		typeof token === 'object' && token.text === word && token.plain === token.text.length;

	function take(word: string): boolean {
		const is = isWord(tokens[at], word);
		if (is) at += 1;
		return is;
	}

	function any(depth: number): Query {
		const all = [and(depth)];
		while (take('OR')) all.push(and(depth));
		return (facts) => all.some((query) => query(facts));
	}

	function and(depth: number): Query {
		const all = [one(depth)];
		for (;;) {
			const isSaid = take('AND');
			const next = tokens[at];
			if (!isSaid && (next === undefined || next === ')' || isWord(next, 'OR'))) break;
			all.push(one(depth));
		}
		return (facts) => all.every((query) => query(facts));
	}

	function one(depth: number): Query {
		if (depth > MAX_DEPTH) throw new QueryError(`a query has at most ${MAX_DEPTH} brackets within each other`);
		if (take('NOT')) {
			const inner = one(depth + 1);
			return (facts) => !inner(facts);
		}
		const token = tokens[at++];
		if (token === undefined) throw ends();
		if (token === '(') {
			const inner = any(depth + 1);
			if (tokens[at++] !== ')') throw new QueryError('a bracket in the query is not closed');
			return inner;
		}
		if (token === ')' || isWord(token, 'AND') || isWord(token, 'OR')) throw unexpected(token);
		return term(token.text, token.plain);
	}

	if (tokens.length === 0) return () => true;
	const query = any(0);
	const rest = tokens[at];
	if (rest !== undefined) throw unexpected(rest);
	return query;
}

function ends(): QueryError {
	return new QueryError('the query ends where a term is expected; write one as in `tag:lab`');
}

function unexpected(token: Token): QueryError {
	return new QueryError(`\`${typeof token === 'string' ? token : token.text.slice(0, 40)}\` cannot stand there in the query`);
}

function term(text: string, plain: number): Query {
	const colon = text.slice(0, plain).indexOf(':');
	if (colon < 0) {
		const wanted = text.toLowerCase();
		return (facts) => facts.of('id').some((one) => one.includes(wanted)) || facts.of('name').some((one) => one.includes(wanted));
	}
	const [name, value] = [text.slice(0, colon), text.slice(colon + 1).toLowerCase()];
	if (!Object.hasOwn(FIELDS, name)) throw new QueryError(`\`${name.slice(0, 40)}\` is no field of a query; there are ${FIELD_NAMES.join(', ')}`);
	if (value === '') throw ends();
	const field = name as Field;
	const fits = value.includes('*') ? glob(value) : (one: string) => one === value;
	const words: readonly string[] = FIELDS[field];
	if (words.length > 0 && !words.some(fits)) throw new QueryError(`\`${name}:\` is one of ${words.join(', ')}`);
	return (facts) => facts.of(field).some(fits);
}

function glob(text: string): (one: string) => boolean {
	const parts = text.split(/\*+/).map((part) => part.replace(/[.*+?^${}()|[\]\\]/g, '\\$&'));
	const pattern = new RegExp(`^${parts.join('[^]*')}$`);
	return (one) => pattern.test(one);
}

function tokenize(text: string): Token[] {
	const tokens: Token[] = [];
	const pattern = /\s+|([()])|((?:[^\s()"]|"[^"]*")+)|"/gy;
	for (let found = pattern.exec(text); found; found = pattern.exec(text)) {
		const [whole, bracket, word] = found;
		if (whole === '"') throw new QueryError('a quote in the query does not end');
		if (bracket) tokens.push(bracket as '(' | ')');
		else if (word !== undefined) {
			const quote = word.indexOf('"');
			const bare = word.replaceAll('"', '');
			tokens.push({ text: bare, plain: quote < 0 ? bare.length : quote });
		}
	}
	return tokens;
}
