// Sandboxes out of a pool that keeps workspaces.
import assert from 'node:assert/strict'
import { step } from './walk.mjs'

export default async ({ sdk: { Sandbox } }) => {
  await step(['Sandbox.create', 'pause, betaPause', 'Sandbox.connect'], 'pause and resume a sandbox with file, of a template that is a pool', async () => {
    const pooled = await Sandbox.create('pooled', { lifecycle: { onTimeout: 'pause' }, envs: { TEST_VAR: 'is back' }, timeoutMs: 600_000 })
    assert.equal((await pooled.getInfo()).templateId, 'pooled')
    await pooled.files.write('kept', 'still here')
    const [host] = (await pooled.commands.run('hostname; echo "$TEST_VAR"')).stdout.split('\n')
    assert.match(host, /^warm-/) // it is a pod of the pool
    assert.equal(await pooled.betaPause(), true)
    const again = await Sandbox.connect(pooled.sandboxId)
    const { stdout } = await again.commands.run('cat kept; echo; hostname; echo "$TEST_VAR"')
    const [kept, other, env] = stdout.split('\n')
    assert.deepEqual([kept, env], ['still here', 'is back'])
    assert.doesNotMatch(other, /^warm-/)
    await again.kill()
  })
}
