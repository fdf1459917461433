// Snapshots and forks.
import assert from 'node:assert/strict'
import { absent, all, step } from './walk.mjs'

export default async ({ sdk, since }) => {
  const { Sandbox } = sdk
  const sandbox = await Sandbox.create({ envs: { COLOUR: 'blue' }, metadata: { team: 'red' }, timeoutMs: 600_000 })
  const { sandboxId } = sandbox
  await sandbox.files.write('state', 'one')

  let snapshot
  await step('createSnapshot', 'create a snapshot', async () => {
    snapshot = await sandbox.createSnapshot(since('2.32.0') ? { name: 'tests pass' } : undefined)
    assert.ok(snapshot.snapshotId)
    if (since('2.32.0')) assert.deepEqual(snapshot.names, ['tests pass'])
    await sandbox.files.write('state', 'two')
  }, 'differs')

  await step('Sandbox.create of a snapshot', 'create a sandbox from a snapshot', async () => {
    const again = await Sandbox.create(snapshot.snapshotId, { timeoutMs: 600_000 })
    assert.equal((await again.commands.run('cat state; echo $COLOUR')).stdout, 'oneblue\n')
    await again.kill()
  }, 'differs')

  await step('listSnapshots', 'list snapshots; paginate', async () => {
    const later = await Sandbox.createSnapshot(sandboxId)
    const pages = await all(sandbox.listSnapshots({ limit: 1 }))
    assert.deepEqual(pages.map(([s]) => s.snapshotId), [later.snapshotId, snapshot.snapshotId])
    const everywhere = (await all(Sandbox.listSnapshots())).flat().map(s => s.snapshotId)
    assert.ok(everywhere.includes(later.snapshotId) && everywhere.includes(snapshot.snapshotId))
    assert.deepEqual(await Sandbox.listSnapshots({ sandboxId: 'missing' }).nextItems(), [])
  }, 'differs')

  await step('deleteSnapshot', 'delete a snapshot', async () => {
    assert.equal(await Sandbox.deleteSnapshot(snapshot.snapshotId), true)
    assert.equal(await Sandbox.deleteSnapshot(snapshot.snapshotId), false)
    await assert.rejects(Sandbox.create(snapshot.snapshotId), sdk.SandboxError)
  }, 'differs')

  if (sandbox.fork) {
    await step('fork', 'fork a sandbox, several times', async () => {
      const forks = await sandbox.fork({ count: 2, timeoutMs: 600_000 })
      assert.equal(new Set([sandboxId, ...forks.map(f => f.sandboxId)]).size, 3)
      for (const fork of forks) {
        assert.equal((await fork.commands.run('cat state; echo $COLOUR')).stdout, 'twoblue\n')
        assert.equal((await fork.getInfo()).metadata.team, 'red')
        await fork.kill()
      }
      assert.equal(await sandbox.files.read('state'), 'two')
      await assert.rejects(Sandbox.fork('missing'), sdk.SandboxNotFoundError)
      await assert.rejects(sandbox.fork({ count: 101 }), sdk.SandboxError)
    }, 'differs')
  } else absent('fork')
  await sandbox.kill()
}
