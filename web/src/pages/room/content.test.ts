import { expect, test } from 'vitest';
import { hear, kindOf } from './content';
import { inviteOf, readInvite } from './entry';

test('each kind is read by its rules', () => {
	const app = (data: unknown) => ({ k: 'app', data });
	for (const [payload, heard] of [
		[{ k: 'chat', text: ' hi ' }, { kind: 'chat', text: 'hi', isDirect: false }],
		[{ k: 'chat', text: 'x'.repeat(501), dm: true }, { kind: 'chat', text: 'x'.repeat(500), isDirect: true }],
		[{ k: 'chat', text: '  ' }, undefined],
		[app({ __kib_agent: 'chat', text: 'hi' }), { kind: 'chat', text: 'hi', isDirect: false }],
		[app({ __kib_agent: 'view', view: { a: 1 } }), { kind: 'view', view: { a: 1 } }],
		[app({ __kib_agent: 'act', action: 1, id: 4 }), { kind: 'act', action: 1, id: '4', from: undefined }],
		[app({ __kib_agent: 'acted', id: '4', ok: false, error: 'no' }), { kind: 'acted', id: '4', ok: false, words: 'no' }],
		[app({ __kib_agent: 7 }), { kind: 'data', data: { __kib_agent: 7 } }],
		[app('x'.repeat(300_000)), undefined],
		[{ k: 'schema', name: ' s ', version: '1', schema: {} }, { kind: 'schema', name: 's', version: '1', schema: {} }],
		[{ k: 'xbegin', id: 7 }, undefined],
		[[], undefined],
	] as const) {
		expect(hear(payload, false)).toEqual(heard);
	}
	expect(kindOf(app({ __kib_agent: 'act' }))).toBe('act');
});

test('only the hub says by which rule a line came', () => {
	const payload = { k: 'chat', text: 'x', rule: 'deploy', sender: 'bot', part: 1, parts: 2 };
	expect(hear(payload, true)).toMatchObject({ rule: 'deploy', sender: 'bot', part: '1/2' });
	expect(hear(payload, false)).toEqual({ kind: 'chat', text: 'x', isDirect: false });
});

test('an invite is found in links of ours and of the field', () => {
	expect(inviteOf('#invite=a.b')).toBe('a.b');
	expect(inviteOf('#standup?g=invite&gt=a.b')).toBe('a.b');
	expect(inviteOf('#standup?g=open')).toBeUndefined();
	const body = btoa(JSON.stringify({ name: 'Hana', room: 'x', exp: 5, role: 'host' })).replaceAll('=', '');
	expect(readInvite(`${body}.x`)).toMatchObject({ name: 'Hana', isHost: true, expiresAt: 5000 });
	for (const wrong of [undefined, '', 'x', '%%.x', `${btoa('[]')}.x`]) expect(readInvite(wrong)).toBeUndefined();
});
