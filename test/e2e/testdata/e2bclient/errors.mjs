// What goes wrong, and the classes of errors by which clients know it.
import assert from 'node:assert/strict'
import { step, throwsOf } from './walk.mjs'

const template = 'updateNetwork, Volume, Secret, Template'

export default async walk => {
  const { sdk, pods, sandbox } = walk
  const { Sandbox } = sdk
  const { commands, files } = sandbox
  const missing = sdk.SandboxNotFoundError ?? sdk.NotFoundError

  await step('Sandbox.connect', 'errors: AuthenticationError', async () => {
    await throwsOf(Sandbox.create({ apiKey: 'e2b_00' }), sdk.AuthenticationError)
    await throwsOf(Sandbox.connect(sandbox.sandboxId, { apiKey: 'e2b_00' }), sdk.AuthenticationError)
    const { sandboxId, sandboxDomain } = sandbox
    const other = new Sandbox({ sandboxId, sandboxDomain, envdVersion: '0.6.1', envdAccessToken: 'wrong', apiKey: process.env.E2B_API_KEY })
    await throwsOf(other.commands.run('true'), sdk.AuthenticationError)
    await throwsOf(other.files.read('/etc/hostname'), sdk.AuthenticationError)
    await throwsOf(other.files.list('/'), sdk.AuthenticationError)
  })

  await step('Sandbox.connect', 'errors: NotFoundError, SandboxNotFoundError, FileNotFoundError', async () => {
    await throwsOf(Sandbox.connect('s-missing'), missing)
    await throwsOf(Sandbox.setTimeout('s-missing', 10_000), missing)
    await throwsOf(Sandbox.connect(sandbox.sandboxId, { apiKey: process.env.OTHER_KEY }), missing)
    assert.equal(await Sandbox.kill('s-missing'), false)
    await throwsOf(Sandbox.create('missing'), sdk.SandboxError, /there is no template/)
    await throwsOf(files.read('/tmp/missing'), sdk.FileNotFoundError ?? sdk.NotFoundError)
    await throwsOf(commands.sendStdin(999999, 'x'), sdk.NotFoundError)
  })

  await step('commands.run', 'errors: InvalidArgumentError, CommandExitError', async () => {
    await throwsOf(commands.run('true', { cwd: '/missing' }), sdk.InvalidArgumentError)
    await throwsOf(files.list('~/x'), sdk.InvalidArgumentError)
    await throwsOf(files.read('~/x'), sdk.InvalidArgumentError)
    await throwsOf(commands.run('exit 3'), sdk.CommandExitError, /exit status 3/)
    await throwsOf(commands.run('kill -9 $$'), sdk.CommandExitError, /signal: killed/)
  })

  if (pods) {
    await step('files.write of text, bytes, streams', 'errors: NotEnoughSpaceError', async () => {
      await assert.rejects(commands.run('cat /dev/zero > /dev/shm/fill'), sdk.CommandExitError) // a small disk
      await throwsOf(files.write('/dev/shm/more', 'x'.repeat(65536)), sdk.NotEnoughSpaceError)
      await commands.run('rm /dev/shm/fill')
    })
    await step('Sandbox.create', 'errors: RateLimitError', async () => {
      await throwsOf(Sandbox.create({ apiKey: process.env.POOR_KEY, retries: 0 }), sdk.RateLimitError)
    })
    await step("any with user: 'root'", 'errors: a user that there is not', async () => {
      await throwsOf(commands.run('true', { user: 'root' }), sdk.SandboxError, /not supported/)
      await throwsOf(files.read('/etc/hostname', { user: 'root' }), sdk.SandboxError, /not supported/)
      assert.equal((await commands.run('echo so', { user: 'user' })).stdout, 'so\n')
    }, 'differs')
  }
  await unserved(walk)
}

async function unserved ({ sdk, sandbox, since }) {
  const { Sandbox, SandboxError } = sdk
  const refused = (promise, Class = SandboxError) => throwsOf(promise, Class, /not supported/)

  await step('Sandbox.create with network.rules, egressProxy, maskRequestHost, httpsPorts', 'rules for the network without a way out', async () => {
    await refused(Sandbox.create({ allowInternetAccess: false })) // of a tenant without egress
    await refused(Sandbox.create({ network: { denyOut: ['0.0.0.0/0'] } }))
    await refused(Sandbox.create({ apiKey: process.env.OUT_KEY, network: { denyOut: ['8.8.8.8'] } }))
    if (since('2.32.0')) await refused(Sandbox.create({ network: { maskRequestHost: 'host.test' } }))
  }, 'not served')

  await step('Sandbox.create with iam, mcp, volumeMounts', 'identity, MCP servers, volumes', async () => {
    await refused(Sandbox.create({ mcp: { invalid_server: {} } }))
    if (since('2.32.0')) await refused(Sandbox.create({ volumeMounts: { '/mnt': 'volume' } }))
    if (since('2.45.0')) await refused(Sandbox.create({ iam: { tokens: { a: { audience: 'a', tokenType: 'jwt' } } } }))
  }, 'not served')

  await step(template, 'update network; volumes; secrets; templates', async () => {
    if (sandbox.updateNetwork) await refused(sandbox.updateNetwork({ allowOut: [] }))
    if (sdk.Volume) await refused(sdk.Volume.create('volume'), sdk.VolumeError)
    if (sdk.Secret) await refused(sdk.Secret.create('secret', 'value'), sdk.SecretError)
    await refused(sdk.Template.build(sdk.Template().fromImage('debian'), 'template'), sdk.BuildError)
  }, 'not served')

  await step('@e2b/code-interpreter', 'the code interpreter says that it is not supported', async () => {
    const interpreter = await import('@e2b/code-interpreter')
    await assert.rejects(interpreter.Sandbox.create(), /not supported/)
    const connected = await interpreter.Sandbox.connect(sandbox.sandboxId)
    await assert.rejects(connected.runCode('1 + 1'), /not supported/)
  }, 'not served')
}
