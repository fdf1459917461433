// The end of a sandbox.
import assert from 'node:assert/strict'
import { get, headersOf } from './servers.mjs'
import { isRunning, step, throwsOf } from './walk.mjs'

export default async ({ sdk, sandbox, metadata }) => {
  const { Sandbox, NotFoundError, TimeoutError } = sdk
  const missing = sdk.SandboxNotFoundError ?? NotFoundError

  await step('kill', 'killing the sandbox while a command is running throws an actionable error', async () => {
    const running = await sandbox.commands.run('sleep 1000', { background: true, timeoutMs: 0 })
    const lost = throwsOf(running.wait(), TimeoutError, /sandbox/)
    assert.equal(await Sandbox.kill(sandbox.sandboxId), true)
    await lost
  })

  await step(['kill', 'isRunning', 'Sandbox.connect', 'getInfo'], 'kill; connect to non-running sandbox', async () => {
    assert.equal(await isRunning(sandbox), false)
    assert.equal(await Sandbox.kill(sandbox.sandboxId), false)
    await sandbox.kill()
    await throwsOf(Sandbox.connect(sandbox.sandboxId), missing)
    await throwsOf(sandbox.commands.run('true'), NotFoundError)
    await throwsOf(sandbox.files.read('/tmp/1'), TimeoutError)
    await throwsOf(sandbox.getInfo(), missing)
    assert.deepEqual(await Sandbox.list({ query: { metadata } }).nextItems(), [])
  })

  await step('getHost', 'ping server in non-running sandbox', async () => {
    const [status, text] = await get(headersOf(sandbox, 3000))
    assert.deepEqual([status, JSON.parse(text).code], [502, 502])
  })
}
