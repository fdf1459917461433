// A client of the Model Context Protocol, made with its TypeScript SDK.
//
//	node client.mjs URL                 over HTTP, with the token in PODAGENT_MCP_TOKEN
//	node client.mjs COMMAND [ARG]...    over the standard input and output of COMMAND
//
// It reads a plan from standard input, {"calls": [{"tool", "input", "cancel"}],
// "reads": [URI]}, and prints the results as one line of JSON. "ID" in an input
// stands for the last command id in a result. A call with "cancel" is cancelled at
// its first progress.
import { Client } from '@modelcontextprotocol/sdk/client/index.js';
import { StdioClientTransport } from '@modelcontextprotocol/sdk/client/stdio.js';
import { StreamableHTTPClientTransport } from '@modelcontextprotocol/sdk/client/streamableHttp.js';
import { text } from 'node:stream/consumers';

const uuid = /[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}/;
const timeout = 120_000; // milliseconds

function transport([first, ...rest]) {
	if (/^https?:/.test(first)) {
		const headers = { Authorization: `Bearer ${process.env.PODAGENT_MCP_TOKEN}` };
		return new StreamableHTTPClientTransport(new URL(first), { requestInit: { headers } });
	}
	return new StdioClientTransport({ command: first, args: rest, env: process.env });
}

async function call(client, { tool, input, cancel }, id) {
	const controller = new AbortController();
	let progress = '';
	const onprogress = ({ message }) => {
		progress += message;
		if (cancel) controller.abort('cancelled');
	};
	const params = { name: tool, arguments: JSON.parse(JSON.stringify(input).replaceAll('"ID"', JSON.stringify(id))) };
	try {
		const result = await client.callTool(params, undefined, { onprogress, signal: controller.signal, timeout });
		return { text: result.content.map((c) => c.text ?? c.mimeType).join('\n'), isError: !!result.isError, progress };
	} catch (error) {
		return { error: String(error), progress };
	}
}

async function read(client, uri) {
	try {
		const [content] = (await client.readResource({ uri })).contents;
		return { text: content.text, blob: content.blob };
	} catch (error) {
		return { error: String(error) };
	}
}

const plan = JSON.parse(await text(process.stdin));
const client = new Client({ name: 'test', version: '1' });
const over = transport(process.argv.slice(2));
await client.connect(over);
const report = { tools: (await client.listTools()).tools.map((t) => t.name), calls: [], reads: [] };
let id = '';
for (const step of plan.calls) {
	const result = await call(client, step, id);
	id = uuid.exec(result.text)?.[0] ?? id;
	report.calls.push(result);
}
for (const uri of plan.reads) report.reads.push(await read(client, uri));
await over.terminateSession?.();
await client.close();
console.log(JSON.stringify(report));
