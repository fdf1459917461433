// A sandbox, and what is known of it.
import assert from 'node:assert/strict'
import { isRunning, step } from './walk.mjs'

export default async ({ sdk: { Sandbox }, since, pods, sandbox, metadata }) => {
  await step(['getInfo', 'Sandbox.create with metadata'], 'get sandbox info; metadata', async () => {
    const info = await sandbox.getInfo()
    assert.equal(info.sandboxId, sandbox.sandboxId)
    assert.equal(info.templateId, 'base')
    assert.equal(info.state, 'running')
    assert.deepEqual(info.metadata, metadata)
    assert.ok(info.startedAt instanceof Date && info.endAt > new Date())
    assert.deepEqual((await Sandbox.getInfo(sandbox.sandboxId)).metadata, metadata)
  })

  await step(['Sandbox.connect', 'isRunning'], 'connect', async () => {
    assert.equal(await isRunning(sandbox), true)
    const again = await Sandbox.connect(sandbox.sandboxId)
    assert.equal(await isRunning(again), true)
    assert.equal((await again.commands.run('echo "$COLOUR"')).stdout, 'blue\n')
    assert.equal((await sandbox.connect()).sandboxId, sandbox.sandboxId)
  })

  if (pods) await step('Sandbox.connect', 'connect does not shorten, and extends, the timeout of a running sandbox', async () => {
    const { endAt } = await sandbox.getInfo()
    await Sandbox.connect(sandbox.sandboxId, { timeoutMs: 10_000 })
    assert.deepEqual((await sandbox.getInfo()).endAt, endAt)
    await sandbox.connect({ timeoutMs: 900_000 })
    assert.ok((await sandbox.getInfo()).endAt > endAt)
  })

  await step('getMetrics', 'sandbox metrics, of a time range', async () => {
    const start = new Date()
    const [now] = await sandbox.getMetrics()
    assert.ok(now.timestamp instanceof Date && now.diskTotal > 0)
    for (const name of ['cpuUsedPct', 'cpuCount', 'memUsed', 'memTotal', 'diskUsed']) assert.equal(typeof now[name], 'number')
    const end = new Date(Date.now() + 60_000)
    assert.equal((await sandbox.getMetrics({ start, end })).length, 1)
    const before = { start: new Date(start - 3_600_000), end: new Date(start - 1_800_000) }
    if (since('2.32.0')) assert.deepEqual(await sandbox.getMetrics(before), [])
  })

  await step('Sandbox.create', 'create with an AbortSignal', async () => {
    if (!since('2.32.0')) return
    await assert.rejects(Sandbox.create({ signal: AbortSignal.abort() }))
    await assert.rejects(sandbox.commands.run('true', { signal: AbortSignal.abort() }))
  })
}
