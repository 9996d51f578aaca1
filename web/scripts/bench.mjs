// The page's figures, read from the browser's own trace: how soon the list is there and usable with a thousand machines,
// and what a frame of scrolling and a keystroke in the filter cost with ten thousand. `--quick` takes a tenth of them.

import { enter, inBrowser, PASSWORD } from '../tests/browser.mjs';
import { startFleet, startHub } from './hub.mjs';

const isQuick = process.argv.includes('--quick');
const SOME = isQuick ? 100 : 1_000;
const MANY = isQuick ? 1_000 : 10_000;
const LOADS = 7;

const CATEGORIES = ['blink.user_timing', 'devtools.timeline', 'disabled-by-default-devtools.timeline.frame', 'devtools.timeline.frame', 'disabled-by-default-devtools.timeline', 'toplevel'];

/** What the browser traced while something was done, oldest first, times in milliseconds. */
async function traced(page, doing) {
	const browser = await page.context().browser()?.newBrowserCDPSession();
	const cdp = browser ?? (await page.context().newCDPSession(page));
	const events = [];
	cdp.on('Tracing.dataCollected', ({ value }) => events.push(...value));
	await cdp.send('Tracing.start', { traceConfig: { includedCategories: CATEGORIES, excludedCategories: ['*'] }, transferMode: 'ReportEvents' });
	await doing();
	const ended = new Promise((resolve) => cdp.once('Tracing.tracingComplete', resolve));
	await cdp.send('Tracing.end');
	await ended;
	await cdp.detach();
	return events.map((event) => ({ ...event, at: event.ts / 1000, ms: (event.dur ?? 0) / 1000 })).sort((a, b) => a.at - b.at);
}

/** The thread that runs the page, by the mark that only it makes. */
function ofThread(events, mark) {
	const { pid, tid } = events.find(({ name, cat }) => name === mark && cat.includes('blink.user_timing')) ?? {};
	return events.filter((event) => event.pid === pid && event.tid === tid);
}

function percentile(values, share) {
	const sorted = values.toSorted((a, b) => a - b);
	return sorted[Math.min(sorted.length - 1, Math.ceil(sorted.length * share) - 1)] ?? Number.NaN;
}

function say(what, value, goal) {
	console.log(`${what.padEnd(58)} ${value.toFixed(1).padStart(8)} ms   goal ${goal} ms   ${value <= goal ? 'met' : 'missed'}`);
}

/** Marks the first frame in which the list has a row. */
const WATCH = () => {
	const look = () => {
		if (document.querySelector('[role=row][aria-rowindex="2"]')) requestAnimationFrame(() => setTimeout(() => performance.mark('listed')));
		else requestAnimationFrame(look);
	};
	requestAnimationFrame(look);
};

/** From the beginning of the navigation until the rows are painted and no task of 50 ms or more runs into that. */
async function interactive(page, url) {
	const events = await traced(page, async () => {
		await page.goto(url);
		await page.waitForFunction(() => performance.getEntriesByName('listed').length > 0);
	});
	const thread = ofThread(events, 'listed');
	const listed = thread.findLast(({ name }) => name === 'listed').at;
	const began = thread.findLast(({ name, at, args }) => name === 'navigationStart' && at < listed && args?.data?.documentLoaderURL === url)?.at;
	const busy = thread.filter(({ name, ms, at }) => name === 'RunTask' && ms >= 50 && at <= listed).map(({ at, ms }) => at + ms);
	return Math.max(listed, ...busy) - began;
}

/** What the page's thread worked for each frame while the list is scrolled from end to end. */
async function scrolling(page) {
	const events = await traced(page, () =>
		page.evaluate(async () => {
			performance.mark('begins');
			const rows = document.querySelector('.rows');
			const most = rows.scrollHeight - rows.clientHeight;
			const frames = 240;
			for (let i = 1; i <= frames; i += 1) {
				await new Promise((resolve) => requestAnimationFrame(resolve));
				// Slowly at first, at the end in leaps.
				rows.scrollTop = most * (i / frames) ** 3;
			}
			await new Promise((resolve) => requestAnimationFrame(() => setTimeout(resolve)));
			performance.mark('ends');
		}),
	);
	const thread = ofThread(events, 'begins');
	const from = thread.find(({ name }) => name === 'begins').at;
	const to = thread.find(({ name }) => name === 'ends').at;
	const within = thread.filter(({ at }) => at >= from && at <= to);
	const frames = within.filter(({ name }) => name === 'BeginMainThreadFrame').map(({ at }) => at);
	const tasks = within.filter(({ name, ph }) => name === 'RunTask' && ph === 'X');
	const work = frames.slice(0, -1).map((start, i) => {
		const end = frames[i + 1];
		// A task that began before a frame did counts with its part in it.
		return tasks.reduce((sum, { at, ms }) => sum + Math.max(0, Math.min(at + ms, end) - Math.max(at, start)), 0);
	});
	return { frames: work.length, p95: percentile(work, 0.95), most: Math.max(...work) };
}

/** From a key until what it changed is painted. */
async function typing(page) {
	const box = page.getByLabel('Find machines');
	const events = await traced(page, async () => {
		for (const text of ['sim-09', 'NOT health:warn', 'tag:x OR os:win*']) {
			await box.fill('');
			await box.pressSequentially(text, { delay: 40 });
		}
		await page.evaluate(() => new Promise((resolve) => requestAnimationFrame(() => setTimeout(resolve, 100))));
	});
	const keys = events.filter(({ name, args }) => name === 'EventTiming' && /^(keydown|keypress|input)$/.test(args?.data?.type ?? '') && args.data.duration !== undefined);
	const took = keys.map(({ args }) => args.data.duration);
	return { keys: took.length, p95: percentile(took, 0.95), most: Math.max(...took) };
}

async function withFleet(count, body) {
	const hub = await startHub();
	let fleet;
	try {
		await hub.api('POST', '/api/users', { name: 'anna', role: 'admin', password: PASSWORD });
		fleet = await startFleet(hub, count);
		await inBrowser(async (page) => {
			await page.addInitScript(WATCH);
			await enter(page, hub, 'anna', '/machines');
			await page.locator('[role=row][aria-rowindex="2"]').waitFor();
			await body(page, hub);
		});
	} finally {
		await fleet?.stop();
		await hub.stop();
	}
}

await withFleet(SOME, async (page, hub) => {
	const loads = [];
	for (let i = 0; i < LOADS; i += 1) loads.push(await interactive(page, `${hub.http}/machines`));
	say(`interactive with ${SOME.toLocaleString()} machines (median of ${LOADS} loads)`, percentile(loads, 0.5), 300);
});
await withFleet(MANY, async (page) => {
	await page.getByText(new RegExp(`^\\s*${MANY.toLocaleString()} machines`)).waitFor();
	const scroll = await scrolling(page);
	say(`${MANY.toLocaleString()} machines: scrolling, p95 of ${scroll.frames} frames (most ${scroll.most.toFixed(1)})`, scroll.p95, 16.7);
	const keys = await typing(page);
	say(`${MANY.toLocaleString()} machines: a key in the filter, p95 of ${keys.keys} (most ${keys.most.toFixed(1)})`, keys.p95, 50);
});
