import { expect, test } from 'vitest';
import { asQuery, isRefusal, type JournalRecord, told, verdictOf } from './journal';

const base: JournalRecord = { hub_id: 'h', seq: 1, at: '2026-01-01T00:00:00Z', kind: 'call', prev: '', hash: '' };

test('a record says in one line what it is about', () => {
	expect(told({ ...base, tool: 'fs_list', target: 'pc-1' })).toBe('fs_list on pc-1');
	expect(told({ ...base, kind: 'trust', target: 'pc-1', detail: { what: 'revoked' } })).toBe('Machine pc-1: revoked');
	expect(told({ ...base, kind: 'hub' })).toBe('Hub');
	expect(told({ ...base, kind: 'user', detail: { what: 'added', user: 'anna' } })).toBe('User anna: added');
	expect(told({ ...base, kind: 'auth', target: 'pc-1' })).toBe('pc-1: signed in');
	expect(told({ ...base, kind: 'auth', who: 'anna', detail: { what: 'signed in' } })).toBe('anna: signed in');
});

test('refusals are told from outcomes', () => {
	expect(isRefusal({ ...base, decision: 'blocked' })).toBe(true);
	expect(verdictOf({ ...base, phase: 'outcome', outcome: 'timeout', decision: 'allowed' })).toEqual({ word: 'timeout', kind: 'warn' });
	expect(verdictOf({ ...base, phase: 'intent', decision: 'allowed' })?.kind).toBe('info');
	expect(verdictOf({ ...base, kind: 'trust', decision: 'allowed' })).toBeUndefined();
});

test('a filter becomes the part of an address, without what is not set', () => {
	expect(asQuery({ agent: 'pc-1', text: 'a b', tool: '' })).toBe('agent=pc-1&text=a+b');
});
