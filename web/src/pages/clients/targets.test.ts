import { expect, test } from 'vitest';
import { targetOf, told } from './targets';

test('what a person writes becomes a target, and reads back', () => {
	expect(targetOf('clients', '')).toEqual({ clients: {} });
	expect(targetOf('clients', 'a, b,')).toEqual({ clients: { to: ['a', 'b'] } });
	expect(told(targetOf('clients', 'a, b'))).toBe('to a, b');
	expect(told(targetOf('clients', ''))).toBe('to all other clients');
	expect(told(targetOf('room', ' standup '))).toBe('into the room standup');
	expect(told(targetOf('webhook', 'https://x'))).toBe('to https://x');
	expect(told(targetOf('inbox', ''))).toBe('into the inbox');
});
