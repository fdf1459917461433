// What a sandbox reaches: less than its tenant, if its maker says so.
import assert from 'node:assert/strict'
import { createServer } from 'node:http'
import { step } from './walk.mjs'

const commit = 'c'.repeat(40)

export default async ({ sdk: { Sandbox }, since }) => {
  // A repository, as git's simplest protocol has it: the image has no other program that gets something by HTTP.
  const site = createServer((req, res) => res.end(req.url.includes('/info/refs') ? `${commit}\trefs/heads/main\n` : 'ref: refs/heads/main\n'))
  await new Promise(resolve => site.listen(0, '127.0.0.1', resolve))
  const host = name => `${name}.site.test:${site.address().port}` // of which OUT_KEY's tenant may reach a and b
  const apiKey = process.env.OUT_KEY
  const reaches = async (sandbox, name) => {
    const { stdout } = await sandbox.commands.run(`git ls-remote http://${host(name)}/r 2>&1 || true`)
    assert.match(stdout, new RegExp(`${commit}|error: 403`))
    return stdout.includes(commit)
  }

  await step('Sandbox.create with network.allowOut, denyOut', 'allow only some hosts', async () => {
    const network = { allowOut: [host('a')], denyOut: ['0.0.0.0/0'] }
    const sandbox = await Sandbox.create({ apiKey, network })
    assert.deepEqual([await reaches(sandbox, 'a'), await reaches(sandbox, 'b')], [true, false])
    if (since('2.51.0')) {
      const { allowOut, denyOut } = (await sandbox.getInfo()).network
      assert.deepEqual({ allowOut, denyOut }, network)
    }
    await sandbox.kill()
  })

  await step('Sandbox.create with allowInternetAccess: false', 'internet access disabled', async () => {
    const sandbox = await Sandbox.create({ apiKey, allowInternetAccess: false })
    assert.equal(await reaches(sandbox, 'a'), false)
    if (since('2.51.0')) assert.equal((await sandbox.getInfo()).allowInternetAccess, false)
    await sandbox.kill()
  })
  site.close()
}
