// Makes calls in a sandbox by E2B's SDK, and the same ones by plain requests to the gateway's REST,
// from one process:
//
//   client.mjs TOKEN
//
// E2B_API_URL and E2B_SANDBOX_URL are the gateway's. Each line of its input names a call; it answers
// with how long that took, in nanoseconds, or why it failed.
import assert from 'node:assert/strict'
import { createInterface } from 'node:readline'
import { Sandbox } from 'e2b'

const [token] = process.argv.slice(2)
const sandbox = await Sandbox.create({ timeoutMs: 3_600_000 })
const [name] = sandbox.sandboxId.split('--')
const content = 'x'.repeat(4096)

// rest sends a request about the sandbox, and returns the answer's body.
async function rest (method, path, body, headers) {
  const answer = await fetch(`${process.env.E2B_API_URL}/api/v1/sandboxes/${name}${path}`, { method, body, headers: { Authorization: `Bearer ${token}`, ...headers } })
  const got = await answer.arrayBuffer()
  assert.equal(Math.trunc(answer.status / 100), 2)
  return got
}

const exec = JSON.stringify({ args: ['/bin/bash', '-l', '-c', 'true'] })
const calls = {
  'sdk exec': () => sandbox.commands.run('true'),
  'rest exec': () => rest('POST', '/exec', exec, { 'Content-Type': 'application/json' }),
  'sdk write': () => sandbox.files.write('small', content),
  'rest write': () => rest('PUT', '/files?path=small', content),
  'sdk read': async () => assert.equal((await sandbox.files.read('small')).length, 4096),
  'rest read': async () => assert.equal((await rest('GET', '/files?path=small')).byteLength, 4096),
  kill: () => sandbox.kill()
}

console.log('ready')
for await (const line of createInterface({ input: process.stdin })) {
  const begun = process.hrtime.bigint()
  try {
    await calls[line]()
    console.log(String(process.hrtime.bigint() - begun))
  } catch (err) {
    console.log(JSON.stringify(String(err)))
  }
}
process.exit(0)
