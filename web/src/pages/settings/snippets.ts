// How each assistant is told of this hub.

export interface Assistant {
	key: string;
	title: string;
	/** Where the text goes. */
	where: string;
	snippet: (hub: string, token: string) => string;
}

const json = (value: unknown) => JSON.stringify(value, null, 2);

export const ASSISTANTS: Assistant[] = [
	{
		key: 'claude-code',
		title: 'Claude Code',
		where: 'in a terminal',
		snippet: (hub, token) => `claude mcp add --transport http convoke ${hub}/mcp --header "Authorization: Bearer ${token}"`,
	},
	{
		key: 'claude',
		title: 'Claude Desktop',
		where: 'in claude_desktop_config.json; it starts the program as a bridge',
		snippet: (hub, token) =>
			json({ mcpServers: { convoke: { command: 'convoke', args: ['mcp'], env: { CONVOKE_HUB: hub, CONVOKE_TOKEN: token } } } }),
	},
	{
		key: 'cursor',
		title: 'Cursor',
		where: 'in .cursor/mcp.json',
		snippet: (hub, token) => json({ mcpServers: { convoke: { url: `${hub}/mcp`, headers: { Authorization: `Bearer ${token}` } } } }),
	},
	{
		key: 'vscode',
		title: 'VS Code',
		where: 'in .vscode/mcp.json',
		snippet: (hub, token) =>
			json({ servers: { convoke: { type: 'http', url: `${hub}/mcp`, headers: { Authorization: `Bearer ${token}` } } } }),
	},
	{
		key: 'zed',
		title: 'Zed',
		where: 'in settings.json',
		snippet: (hub, token) =>
			json({ context_servers: { convoke: { url: `${hub}/mcp`, headers: { Authorization: `Bearer ${token}` } } } }),
	},
	{
		key: 'http',
		title: 'Anything else',
		where: 'an HTTP request, to see that it works',
		snippet: (hub, token) =>
			`curl -sS ${hub}/mcp -H "Authorization: Bearer ${token}" \\\n  -H 'Content-Type: application/json' -H 'Accept: application/json, text/event-stream' \\\n  -d '{"jsonrpc":"2.0","id":1,"method":"tools/list"}'`,
	},
];
