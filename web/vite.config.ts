import { svelte } from '@sveltejs/vite-plugin-svelte';
import { fileURLToPath } from 'node:url';
import { defineConfig } from 'vitest/config';

// The hub that `npm run dev` talks to.
const hub = process.env.CONVOKE_HUB ?? 'http://127.0.0.1:7410';

export default defineConfig({
	plugins: [svelte()],
	build: {
		target: 'es2022',
		// The page's policy allows its own files only, so nothing is put into the HTML or into data addresses.
		assetsInlineLimit: 0,
		modulePreload: { polyfill: false },
		manifest: true,
	},
	worker: { format: 'es' },
	// The fixtures of the repository are above.
	server: { fs: { allow: ['..'] }, proxy: Object.fromEntries(['/api', '/mcp', '/d'].map((path) => [path, hub])) },
	test: { environment: 'happy-dom', include: ['src/**/*.test.ts'] },
	resolve: {
		alias: { $lib: fileURLToPath(new URL('./src/lib', import.meta.url)) },
		...(process.env.VITEST ? { conditions: ['browser'] } : {}),
	},
});
