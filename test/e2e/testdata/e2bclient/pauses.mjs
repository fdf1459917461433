// Pauses, which keep files, and what resumes.
import assert from 'node:assert/strict'
import { isRunning, step, throwsOf, until } from './walk.mjs'
import { get, headersOf, start } from './servers.mjs'

export default async walk => {
  const { sdk } = walk
  await Promise.all([paused(sdk), napping(walk)])
  await step('pause, betaPause', 'pause a sandbox that keeps no files', async () => {
    const sandbox = await sdk.Sandbox.create({ timeoutMs: 600_000 })
    await throwsOf(sandbox.betaPause(), sdk.SandboxError, /400/)
    await sandbox.kill()
  })
}

async function paused ({ Sandbox, NotFoundError }) {
  await step(['pause, betaPause', 'Sandbox.create with lifecycle', 'Sandbox.connect'], 'pause and resume a sandbox with file, with env vars', async () => {
    const kept = await Sandbox.create({ lifecycle: { onTimeout: 'pause' }, envs: { TEST_VAR: 'is back' }, timeoutMs: 600_000 })
    await kept.files.write('kept', 'still here')
    const running = await kept.commands.run('sleep 1000', { background: true, timeoutMs: 0 })
    const lost = assert.rejects(running.wait())
    assert.ok(await kept.betaPause())
    await lost
    await throwsOf(kept.commands.run('true'), NotFoundError)
    assert.equal(await isRunning(kept), false)
    assert.equal((await kept.getInfo()).state, 'paused')
    assert.equal(await kept.betaPause(), false)
    const again = await Sandbox.connect(kept.sandboxId)
    assert.equal(await isRunning(again), true)
    assert.equal(await again.files.read('kept'), 'still here')
    assert.equal((await kept.commands.run('echo "$TEST_VAR"')).stdout, 'is back\n') // the same handle, too
    await step('a pause, then commands.list', 'pause and resume a sandbox with ongoing long running process', async () => {
      assert.ok(!(await again.commands.list()).some(p => p.pid === running.pid && p.cmd === running.cmd))
    }, 'differs')
    await again.setTimeout(1000)
    await until(async () => (await again.getInfo()).state === 'paused')
    const oncemore = await Sandbox.connect(kept.sandboxId)
    assert.equal(await oncemore.files.read('kept'), 'still here')
    await oncemore.kill()
  })
}

async function napping ({ sdk: { Sandbox }, server }) {
  await step(['Sandbox.create with lifecycle', 'isRunning'], 'auto-resume wakes paused sandbox on a call, and on http request', async () => {
    const napping = await Sandbox.create('named', { lifecycle: { onTimeout: 'pause', autoResume: true }, network: { allowPublicTraffic: true }, timeoutMs: 600_000 })
    assert.equal((await napping.getInfo()).templateId, 'named')
    await napping.files.write('kept', 'still here')
    assert.ok(await napping.betaPause())
    assert.equal(await isRunning(napping), false)
    assert.equal((await napping.commands.run('cat kept')).stdout, 'still here')
    const [, port] = await start(napping, server())
    await step('Sandbox.create with network.allowPublicTraffic', 'ping server without a token', async () => {
      assert.deepEqual(await get({ Host: napping.getHost(port) }), [200, 'hello\n'])
    })
    assert.ok(await napping.betaPause())
    assert.equal((await get(headersOf(napping, port)))[0], 502) // it runs again, without its servers
    assert.equal(await isRunning(napping), true)
    await napping.kill()
  })
}
