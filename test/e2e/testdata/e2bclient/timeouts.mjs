// Timeouts that end a sandbox, and what is seen of one that is gone.
import assert from 'node:assert/strict'
import { isRunning, step, throwsOf, until } from './walk.mjs'

export default async ({ sdk }) => {
  const { Sandbox } = sdk
  const missing = sdk.SandboxNotFoundError ?? sdk.NotFoundError

  await step('setTimeout', 'shorten then lengthen timeout; shorten timeout', async () => {
    const brief = await Sandbox.create({ timeoutMs: 600_000 })
    await brief.setTimeout(30_000)
    const { endAt } = await brief.getInfo()
    assert.ok(endAt - Date.now() <= 30_000)
    await brief.setTimeout(300_000)
    assert.ok((await brief.getInfo()).endAt > endAt)
    const running = await brief.commands.run('sleep 1000', { background: true, timeoutMs: 0 })
    const lost = assert.rejects(running.wait(), sdk.SandboxError)
    await brief.setTimeout(1000)
    await until(async () => !(await isRunning(brief)))
    await lost
    // Until the cluster says that its pod is over, that looks like an agent that does not answer.
    await until(() => brief.commands.run('true').then(() => assert.fail('a command runs in a sandbox that has ended'), err => {
      if (err instanceof sdk.NotFoundError) return true
      assert.match(err.message, /agent unavailable/)
      return false
    }))
    await until(async () => !(await Sandbox.kill(brief.sandboxId)))
    await throwsOf(Sandbox.connect(brief.sandboxId), missing)
    await throwsOf(brief.setTimeout(10_000), missing)
  })
}
