// An agent of the Claude Agent SDK whose built-in tools are aliases of those of an MCP
// server. Its model is a script: a server of the Messages API on the loopback, which
// calls one tool after another. It prints what the model is told.
//
//   node client.mjs HOME COMMAND ARGS... <calls.json
import {query} from '@anthropic-ai/claude-agent-sdk'
import http from 'node:http'
import {text} from 'node:stream/consumers'

const [home, command, ...args] = process.argv.slice(2)
const calls = JSON.parse(await text(process.stdin))
const results = new Map()
let offered = []

// answer is the model's next message in a conversation.
function answer(request) {
  for (const message of request.messages) {
    for (const part of Array.isArray(message.content) ? message.content : []) {
      if (part.type === 'tool_result') results.set(part.tool_use_id, part)
    }
  }
  if (!request.tools?.length || results.size === calls.length) return {type: 'text', text: 'done'}
  offered = request.tools.map(tool => tool.name)
  return {type: 'tool_use', id: `toolu_${results.size}`, ...calls[results.size]}
}

const model = http.createServer(async (request, response) => {
  const body = await text(request)
  if (new URL(request.url, 'http://model').pathname !== '/v1/messages') return response.writeHead(404).end('{}')
  const part = answer(JSON.parse(body))
  const say = (type, data) => response.write(`event: ${type}\ndata: ${JSON.stringify({type, ...data})}\n\n`)
  response.writeHead(200, {'content-type': 'text/event-stream'})
  say('message_start', {message: {id: 'msg_1', type: 'message', role: 'assistant', model: 'script', content: [], usage: {input_tokens: 1, output_tokens: 1}}})
  if (part.type === 'text') {
    say('content_block_start', {index: 0, content_block: {type: 'text', text: ''}})
    say('content_block_delta', {index: 0, delta: {type: 'text_delta', text: part.text}})
  } else {
    say('content_block_start', {index: 0, content_block: {...part, input: {}}})
    say('content_block_delta', {index: 0, delta: {type: 'input_json_delta', partial_json: JSON.stringify(part.input)}})
  }
  say('content_block_stop', {index: 0})
  say('message_delta', {delta: {stop_reason: part.type === 'text' ? 'end_turn' : 'tool_use'}, usage: {output_tokens: 1}})
  say('message_stop', {})
  response.end()
})
await new Promise(listening => model.listen(0, '127.0.0.1', listening))

const aliases = ['Bash', 'Read', 'Write', 'Edit', 'Glob', 'Grep', 'TaskStop']
const messages = query({prompt: 'go', options: {
  cwd: home, tools: [], settingSources: [], permissionMode: 'dontAsk', allowedTools: ['mcp__sandbox'],
  mcpServers: {sandbox: {type: 'stdio', command, args, env: process.env}},
  toolAliases: Object.fromEntries(aliases.map(name => [name, `mcp__sandbox__${name}`])),
  env: {
    PATH: process.env.PATH, HOME: home, CLAUDE_CODE_DISABLE_NONESSENTIAL_TRAFFIC: '1',
    ANTHROPIC_BASE_URL: `http://127.0.0.1:${model.address().port}`, ANTHROPIC_API_KEY: 'none',
  },
  stderr: data => process.stderr.write(data),
}})
for await (const message of messages) {
  if (message.type === 'result' && message.subtype !== 'success') console.error(message)
}
model.close()
const told = [...results.values()].map(({content, is_error}) => ({
  text: typeof content === 'string' ? content : content.map(part => part.text ?? part.type).join(''),
  isError: is_error === true,
}))
console.log(JSON.stringify({offered, told}))
