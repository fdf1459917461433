// Lists of sandboxes.
import assert from 'node:assert/strict'
import { all, step } from './walk.mjs'

const ids = sandboxes => sandboxes.map(s => s.sandboxId)

export default async ({ sdk: { Sandbox }, since, version, pods }) => {
  const metadata = { list: `of ${version} ${process.pid} ${Date.now()}` }
  const made = await Promise.all(['red', 'blue', 'green'].map(colour => Sandbox.create({ metadata: { ...metadata, colour }, timeoutMs: 600_000, ...pods && colour === 'green' ? { lifecycle: { onTimeout: 'pause' } } : {} })))
  const list = opts => Sandbox.list({ ...opts, query: { metadata, ...opts?.query } })

  let newestFirst
  await step('Sandbox.list', 'list sandboxes with filter; list running sandboxes; paginate iterator', async () => {
    const listed = (await all(list())).flat()
    assert.deepEqual(ids(listed).sort(), ids(made).sort())
    newestFirst = ids(listed)
    for (const [i, s] of listed.entries()) assert.ok(i === 0 || s.startedAt <= listed[i - 1].startedAt)
    assert.deepEqual(ids((await all(list({ query: { metadata: { ...metadata, colour: 'blue' } } }))).flat()), [made[1].sandboxId])
    const running = (await all(list({ query: { state: ['running'] } }))).flat()
    assert.deepEqual([ids(running), running[0].state], [newestFirst, 'running'])
    assert.deepEqual((await all(list({ query: { metadata: { none: 'such' } } }))).flat(), [])
  })

  await step('Sandbox.list', 'paginate running sandboxes', async () => {
    const pages = list({ limit: 2, query: { state: ['running'] } })
    assert.deepEqual(ids(await pages.nextItems()), newestFirst.slice(0, 2))
    assert.ok(pages.hasNext && pages.nextToken)
    assert.deepEqual(ids(await pages.nextItems()), newestFirst.slice(2))
    assert.deepEqual([pages.hasNext, pages.nextToken], [false, undefined])
  })

  if (since('2.45.0')) {
    await step('Sandbox.list', 'list sandboxes with order, started after, with template filter', async () => {
      assert.deepEqual(ids(await list({ order: 'asc' }).nextItems()), newestFirst.toReversed())
      assert.deepEqual(ids(await list({ order: 'desc' }).nextItems()), newestFirst)
      const { startedAt } = await Sandbox.getInfo(newestFirst[0])
      assert.equal((await list({ query: { startedAfter: startedAt } }).nextItems())[0].sandboxId, newestFirst[0])
      assert.deepEqual(await list({ query: { startedAfter: new Date(startedAt.getTime() + 1000) } }).nextItems(), [])
      assert.deepEqual(ids(await list({ query: { template: 'base' } }).nextItems()), newestFirst)
      assert.deepEqual(await list({ query: { template: 'unknown-template' } }).nextItems(), [])
    })
  }

  if (pods) {
    await step(['Sandbox.list', 'pause, betaPause'], 'list paused sandboxes; paginate running and paused sandboxes', async () => {
      assert.equal(await made[2].betaPause(), true)
      const paused = await list({ query: { state: ['paused'] } }).nextItems()
      assert.deepEqual(paused.map(s => [s.sandboxId, s.state]), [[made[2].sandboxId, 'paused']])
      const pages = await all(list({ limit: 1, query: { state: ['running', 'paused'] } }))
      assert.deepEqual(pages.map(([s]) => s.state), newestFirst.map(id => id === made[2].sandboxId ? 'paused' : 'running'))
    })
  }

  await step('kill', 'kill existing sandbox, and it is in no list', async () => {
    assert.deepEqual(await Promise.all(ids(made).map(id => Sandbox.kill(id))), [true, true, true])
    assert.deepEqual(await list().nextItems(), [])
    assert.equal(await Sandbox.kill('nonexistingsandbox'), false)
  })
}
