// Walks OpenAI's agents SDK with its provider for E2B through what an agent's tools do, without a
// model, by environment variables only:
//
//   client.mjs SERVER
//
// SERVER is a program that listens for HTTP. It prints the operations of each step that was right.
import assert from 'node:assert/strict'
import { readFileSync } from 'node:fs'
import http from 'node:http'
import { Manifest } from '@openai/agents/sandbox'
import { E2BSandboxClient } from '@openai/agents-extensions/sandbox/e2b'

const [serverProgram] = process.argv.slice(2)
const root = process.env.ROOT ?? '/workspace'
const serverPort = 8765

async function step (name, operations, walk) {
  try {
    await walk()
  } catch (err) {
    console.error(`${name}: ${err.stack}`, err.details ?? '')
    process.exit(1)
  }
  console.log(name)
  for (const operation of operations) console.log(JSON.stringify({ operation, outcome: outcomes[operation] ?? 'works' }))
}

const outcomes = {
  'execCommand with runAs': 'not served',
  'persistWorkspace as a snapshot': 'differs'
}

const text = bytes => new TextDecoder().decode(bytes)

// output is what a command wrote, of what a model would be told.
const output = said => said.slice(said.indexOf('Output:\n') + 'Output:\n'.length)

const manifest = new Manifest({
  root,
  entries: {
    'notes/readme.md': { type: 'file', content: 'read me\n' },
    'bin/tool': { type: 'file', content: '#!/bin/sh\necho "tool $1"\n', permissions: { owner: 7, group: 5, other: 5 } }
  },
  environment: { COLOUR: 'blue' }
})
const client = new E2BSandboxClient({ timeout: 600, exposedPorts: [serverPort], metadata: { by: 'agents' } })
let session
await step('a session has its files', ['create with a manifest'], async () => {
  session = await client.create({ manifest })
  assert.equal(await session.running(), true)
  assert.equal(text(await session.readFile({ path: 'notes/readme.md' })), 'read me\n')
})

await step('commands run', ['execCommand'], async () => {
  const ran = await session.execCommand({ cmd: 'pwd; echo "$COLOUR"; bin/tool x; echo err >&2; exit 3' })
  assert.match(ran, /Process exited with code 3\n/)
  assert.equal(output(ran), `${root}\nblue\ntool x\n\nerr\n`)
  assert.equal(output(await session.execCommand({ cmd: 'pwd', workdir: 'notes' })), `${root}/notes\n`)
  assert.match(await session.execCommand({ cmd: 'seq 100000', maxOutputTokens: 50 }), /Original token count: \d{6}\n/)
})

await step('a command takes input', ['execCommand with tty, writeStdin'], async () => {
  let said = await session.execCommand({ cmd: 'read line; echo "got: $line"; read line; exit 5', tty: true, yieldTimeMs: 250 })
  const sessionId = Number(/Process running with session ID (\d+)/.exec(said)[1])
  let screen = output(said)
  const type = async chars => {
    said = await session.writeStdin({ sessionId, chars, yieldTimeMs: 250 })
    screen += output(said)
  }
  await type('hello\n')
  while (!screen.includes('got: hello')) await type('')
  await type('exit\n')
  await type('exit\n') // the shell that the command was typed into
  while (!said.includes('exited with code')) await type('')
  assert.match(said, /Process exited with code 5\n/)
  assert.match(await session.writeStdin({ sessionId, chars: '' }), /session not found/)
})

await step('files are looked for and read', ['readFile, pathExists, directoryExists'], async () => {
  assert.equal(await session.pathExists('notes/readme.md'), true)
  assert.equal(await session.pathExists('notes/missing'), false)
  assert.equal(await session.directoryExists('notes'), true)
  assert.equal(await session.directoryExists('notes/readme.md'), false)
  assert.equal(text(await session.readFile({ path: 'notes/readme.md', maxBytes: 4 })), 'read')
  await assert.rejects(session.readFile({ path: 'missing' }), /no such file/)
  await assert.rejects(session.readFile({ path: '/etc/passwd' }), /escape/)
  assert.equal(output(await session.execCommand({ cmd: 'ls notes' })), 'readme.md\n')
})

await step('an image is viewed', ['viewImage'], async () => {
  const png = Buffer.from('iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNk+M9QDwADhgGAWjR9awAAAABJRU5ErkJggg==', 'base64')
  await session.materializeEntry({ path: 'pixel.png', entry: { type: 'file', content: png } })
  const seen = JSON.stringify(await session.viewImage({ path: 'pixel.png' }))
  assert.ok(seen.includes('image/png'), seen)
})

await step('the editor makes, changes, moves and removes files', ['createEditor'], async () => {
  const editor = session.createEditor()
  await editor.createFile({ type: 'create_file', path: 'deep/er/poem', diff: '+one\n+two\n+three' })
  await assert.rejects(editor.createFile({ type: 'create_file', path: 'deep/er/poem', diff: '+x' }), /already exists/)
  await editor.updateFile({ type: 'update_file', path: 'deep/er/poem', diff: '@@\n one\n-two\n+2\n three' })
  assert.equal(text(await session.readFile({ path: 'deep/er/poem' })).trim(), 'one\n2\nthree')
  await editor.updateFile({ type: 'update_file', path: 'deep/er/poem', diff: '@@\n one\n-2\n+zwei\n three', moveTo: 'other/poem' })
  assert.equal(await session.pathExists('deep/er/poem'), false)
  assert.equal(text(await session.readFile({ path: 'other/poem' })).trim(), 'one\nzwei\nthree')
  await editor.deleteFile({ type: 'delete_file', path: 'other/poem' })
  assert.equal(await session.pathExists('other/poem'), false)
})

await step('a manifest is applied to what is there', ['applyManifest, materializeEntry'], async () => {
  await session.applyManifest(new Manifest({ root, entries: { more: { type: 'dir', children: { 'a b.txt': { type: 'file', content: 'more' } } } } }))
  assert.equal(text(await session.readFile({ path: 'more/a b.txt' })), 'more')
})

await step('a port that was exposed is open to anybody', ['resolveExposedPort'], async () => {
  await session.materializeEntry({ path: 'server', entry: { type: 'file', content: readFileSync(serverProgram), permissions: { owner: 7, group: 5, other: 5 } } })
  const started = await session.execCommand({ cmd: `PORT=${serverPort} ./server >server.log 2>&1 & while ! grep -q ready server.log; do sleep 0.05; done` })
  assert.match(started, /exited with code 0\n/)
  const at = await session.resolveExposedPort(serverPort)
  assert.match(at.host, new RegExp(`^${serverPort}-`))
  assert.deepEqual([at.port, at.tls], [443, true])
  assert.equal(await get(at.host), '200 hello\n')
  await assert.rejects(session.resolveExposedPort(serverPort + 1), /was not configured/)
})

// get sends a request without a token to a host, at the gateway.
function get (host) {
  return new Promise((resolve, reject) => {
    http.get(process.env.E2B_SANDBOX_URL, { headers: { Host: host } }, async answer => {
      let body = ''
      for await (const part of answer) body += part
      resolve(`${answer.statusCode} ${body}`)
    }).on('error', reject)
  })
}

let archive
await step('a workspace is kept, and is there in another sandbox', ['persistWorkspace, hydrateWorkspace'], async () => {
  await session.execCommand({ cmd: 'rm server server.log; head -c 3000000 /dev/urandom >large; sha256sum large >sum' })
  archive = await session.persistWorkspace()
  const other = await client.create({ manifest: new Manifest({ root, entries: { stale: { type: 'file', content: 'x' } } }) })
  await other.hydrateWorkspace(archive)
  assert.equal(output(await other.execCommand({ cmd: 'sha256sum -c sum; ls; bin/tool y' })), 'large: OK\nbin\ndeep\nlarge\nmore\nnotes\nother\npixel.png\nsum\ntool y\n')
  await other.delete()
  assert.equal(await other.running(), false)
})

await step('a session is found again by its state', ['serializeSessionState, resume'], async () => {
  const state = JSON.parse(JSON.stringify(await client.serializeSessionState(session.state)))
  const again = await client.resume(await client.deserializeSessionState(state))
  assert.equal(again.state.sandboxId, session.state.sandboxId)
  assert.equal(text(await again.readFile({ path: 'more/a b.txt' })), 'more')
})

if (process.env.PODS) {
  await step('what the gateway does not do is said', ['execCommand with runAs'], async () => {
    await assert.rejects(session.execCommand({ cmd: 'true', runAs: 'root' }), /not supported/)
  })

  await step('a workspace is kept as a snapshot', ['persistWorkspace as a snapshot'], async () => {
    const snapshots = new E2BSandboxClient({ timeout: 600, workspacePersistence: 'snapshot' })
    const taken = await snapshots.create({ manifest: new Manifest({ root }) })
    assert.ok((await taken.persistWorkspace()).length > 0)
    await taken.close()
  })

  await step('a session pauses when it is over, and is resumed', ['close with pauseOnExit, resume'], async () => {
    const pausing = new E2BSandboxClient({ timeout: 600, onTimeout: 'pause', pauseOnExit: true })
    const kept = await pausing.create({ manifest })
    await kept.execCommand({ cmd: 'echo still here >kept' })
    await kept.close()
    const again = await pausing.resume(kept.state)
    assert.equal(again.state.sandboxId, kept.state.sandboxId)
    assert.equal(text(await again.readFile({ path: 'kept' })), 'still here\n')
    again.state.pauseOnExit = false
    await again.close()
    assert.equal(await again.running(), false)
  })
}

await step('a session ends with its sandbox', ['close, delete, running'], async () => {
  await session.close()
  assert.equal(await session.running(), false)
})
process.exit(0)
