import { expect, test } from 'vitest';
import { find } from './places';

const places = ['Machines', 'web-1', 'web-1 logs', 'web-12', 'Journal', 'my-web'].map((title) => ({ title, href: `/${title}`, hint: '' }));
const titles = (text: string) => find(places, text, 10).map(({ title }) => title);

test('what begins with the letters comes first, and the shorter before the longer', () => {
	expect(titles('web')).toEqual(['web-1', 'web-12', 'web-1 logs', 'my-web']);
	expect(titles('logs web')).toEqual(['web-1 logs']);
	expect(titles('JOU')).toEqual(['Journal']);
	expect(titles('nothing')).toEqual([]);
	expect(find(places, '', 2)).toHaveLength(2);
});
