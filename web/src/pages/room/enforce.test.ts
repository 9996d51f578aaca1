import { expect, test } from 'vitest';
import { Enforcer } from './enforce';
import { readGrant } from './grants';
import { readRoster } from './transport';

const NOW = 1_780_000_000_000;

function stage(grants?: Record<string, unknown>) {
	const enforcer = new Enforcer('me');
	const member = (id: string, meta?: object) => ({ id, name: id, cam: false, meta });
	const members = [member('hub', { role: 'kibitzer' }), member('me'), member('anna'), member('bot', { role: 'agent' })];
	const roster = readRoster({ t: 'roster', members, host: 'hub', lobby: null, locked: null });
	if (!roster) throw new Error('no roster');
	enforcer.onRoster(roster);
	if (grants) enforcer.onContent('hub', { k: 'caps', grants }, NOW);
	return { enforcer, roster };
}

const ALL = { perceive: ['see-screen', 'hear-audio', 'read-chat', 'read-roster', 'receive-directed'], act: ['send-chat', 'speak', 'act'] };
const READS = { perceive: ['read-chat', 'read-roster', 'receive-directed'], act: [] };

test('nothing goes to an agent, and no lane to anybody, before the hub has said who may what', () => {
	const { enforcer } = stage();
	expect(enforcer.hearers(NOW)).not.toContain('bot');
	expect(enforcer.receives('anna', 'hear-audio', NOW)).toBe(false);
	const told = stage({ hub: { perceive: ['receive-directed'], act: [] }, me: ALL, anna: ALL, bot: READS }).enforcer;
	expect(told.hearers(NOW)).toEqual(['anna', 'bot']);
	expect(told.receives('anna', 'hear-audio', NOW)).toBe(true);
	expect(told.receives('bot', 'hear-audio', NOW)).toBe(false);
	expect(told.receives('nobody', 'hear-audio', NOW)).toBe(false);
});

test('what a sender may not say is dropped, and only the hub gives out grants', () => {
	const { enforcer, roster } = stage({ me: ALL, anna: ALL, bot: READS });
	const says = (from: string, payload: unknown) => enforcer.onContent(from, payload, NOW).is;
	const act = { k: 'app', data: { __kib_agent: 'act', action: 1 } };
	const view = { k: 'app', data: { __kib_agent: 'view', view: 1 } };
	expect(says('anna', { k: 'chat', text: 'x' })).toBe('content');
	expect(says('bot', { k: 'chat', text: 'x' })).toBe('blocked');
	expect(says('stranger', { k: 'chat', text: 'x' })).toBe('blocked');
	expect(says('bot', { k: 'caps', grants: { bot: ALL } })).toBe('nothing');
	expect(says('anna', { k: 'idtoken', jwt: 'x' })).toBe('nothing');
	expect(says('anna', 7)).toBe('nothing');
	enforcer.onContent('hub', { k: 'caps', grants: { me: ALL, anna: ALL, bot: { perceive: [], act: ['send-chat'] } } }, NOW);
	expect(says('bot', { k: 'chat', text: 'x' })).toBe('content');
	for (const one of ['bot', 'anna']) expect(says(one, act)).toBe('blocked');
	expect(says('hub', act)).toBe('content');
	expect(says('bot', view)).toBe('blocked');
	expect(says('anna', view)).toBe('content');
	// Another host: what the one before said counts no more.
	enforcer.onRoster({ ...roster, host: 'other' });
	expect(enforcer.isTold).toBe(false);
	expect(says('hub', { k: 'caps', grants: {} })).toBe('nothing');
});

test('a grant that ends is over for both sides', () => {
	const until = (expiresAt: unknown) => ({ ...ALL, expiresAt });
	const { enforcer } = stage({ me: ALL, anna: until(NOW / 1000), bot: until(NOW / 1000 + 1) });
	expect(enforcer.hearers(NOW)).toEqual(['bot']);
	expect(enforcer.onContent('anna', { k: 'chat', text: 'x' }, NOW).is).toBe('blocked');
	expect(readGrant(until('tomorrow')).expiresAt).toBe(0);
	expect(readGrant({ perceive: ['x-ray', 'act', 'read-chat'], act: 'all' }).capabilities).toEqual(new Set(['read-chat']));
});
