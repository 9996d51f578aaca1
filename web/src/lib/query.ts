// The query language of the machines list: `tag:lab AND NOT os:windows`. The same as in `GET /api/agents?query=`.
//
//   query  = or ;  or = and { "OR" and } ;  and = not { ["AND"] not } ;  not = ["NOT" | "-"] not | "(" or ")" | term
//   term   = [key ":"] word ; a word may stand in quotes; `*` stands for anything

export interface Facts {
	/** The values of a key, all in lower case; none, where it does not apply. Undefined for a key that does not exist. */
	of(key: string): string[] | undefined;
	/** Everything that plain words are looked for in, in lower case. */
	text: string;
}

export type Query = (facts: Facts) => boolean;

export class QueryError extends Error {}

export const KEYS = ['id', 'name', 'host', 'tag', 'os', 'health', 'state', 'trust', 'protocol', 'version'] as const;

type Token = { kind: 'open' | 'close' | 'and' | 'or' | 'not' } | { kind: 'term'; key?: string; value: string };

export function parse(text: string): Query {
	const tokens = tokenize(text);
	let at = 0;

	function or(): Query {
		let left = and();
		while (tokens[at]?.kind === 'or') {
			at += 1;
			const [a, b] = [left, and()];
			left = (facts) => a(facts) || b(facts);
		}
		return left;
	}

	function and(): Query {
		let left = not();
		for (;;) {
			const next = tokens[at]?.kind;
			if (next === 'and') at += 1;
			else if (next === undefined || next === 'or' || next === 'close') return left;
			const [a, b] = [left, not()];
			left = (facts) => a(facts) && b(facts);
		}
	}

	function not(): Query {
		const token = tokens[at++];
		if (token === undefined) throw new QueryError('something is missing at the end');
		if (token.kind === 'not') {
			const inner = not();
			return (facts) => !inner(facts);
		}
		if (token.kind === 'open') {
			const inner = or();
			if (tokens[at++]?.kind !== 'close') throw new QueryError('a parenthesis is not closed');
			return inner;
		}
		if (token.kind !== 'term') {
			throw new QueryError(token.kind === 'close' ? 'a parenthesis was not opened' : `a word is missing before ${token.kind.toUpperCase()}`);
		}
		return term(token.key, token.value);
	}

	if (tokens.length === 0) return () => true;
	const query = or();
	if (at < tokens.length) throw new QueryError('a parenthesis was not opened');
	return query;
}

function term(key: string | undefined, value: string): Query {
	const wanted = value.toLowerCase();
	if (key === undefined) {
		const pattern = wanted.includes('*') ? glob(`*${wanted}*`) : undefined;
		return (facts) => (pattern ? pattern.test(facts.text) : facts.text.includes(wanted));
	}
	if (!(KEYS as readonly string[]).includes(key)) {
		throw new QueryError(`there is no key “${key}”; these are: ${KEYS.join(', ')}`);
	}
	const pattern = wanted.includes('*') ? glob(wanted) : undefined;
	return (facts) => facts.of(key)?.some((one) => (pattern ? pattern.test(one) : one === wanted)) ?? false;
}

function glob(text: string): RegExp {
	const parts = text.split(/\*+/).map((part) => part.replace(/[.*+?^${}()|[\]\\]/g, '\\$&'));
	return new RegExp(`^${parts.join('[^]*')}$`);
}

function tokenize(text: string): Token[] {
	const tokens: Token[] = [];
	const pattern = /\s*(?:(\()|(\))|(-)(?=\S)|(?:([A-Za-z]+):)?(?:"([^"]*)"|([^\s()"]+))|(\S))/gy;
	for (;;) {
		const found = pattern.exec(text);
		if (!found) return tokens;
		const [, open, close, minus, key, quoted, word, other] = found;
		if (other !== undefined) throw new QueryError(other === '"' ? 'a quote is not closed' : `“${other}” cannot stand here`);
		if (open) tokens.push({ kind: 'open' });
		else if (close) tokens.push({ kind: 'close' });
		else if (minus) tokens.push({ kind: 'not' });
		else if (key === undefined && word !== undefined && /^(AND|OR|NOT)$/.test(word)) {
			tokens.push({ kind: word.toLowerCase() as 'and' | 'or' | 'not' });
		} else tokens.push({ kind: 'term', key: key?.toLowerCase(), value: quoted ?? word ?? '' });
	}
}
