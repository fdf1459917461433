// Watches of directories.
import { absent, relay, step, throwsOf, until } from './walk.mjs'

export default async ({ sdk, since, sandbox }) => {
  const { files, commands } = sandbox

  await step('files.watchDir', 'watch directory changes', async () => {
    const dir = `/tmp/${sandbox.sandboxId}/watched`
    await files.write(`${dir}/file`, 'before')
    const seen = []
    const watch = await files.watchDir(dir, async event => { seen.push(`${event.type} ${event.name}`) }, { timeoutMs: 0 })
    await files.write(`${dir}/file`, 'after')
    await until(() => seen.includes('write file'))
    await commands.run('chmod 600 file; mv file other; rm other', { cwd: dir })
    for (const event of ['chmod file', 'rename file', 'create other', 'remove other']) await until(() => seen.includes(event))
    await watch.stop()
    await files.write(`${dir}/late`, 'x')
  })

  await step('files.watchDir', 'watch recursive directory changes, also after nested folder addition', async () => {
    const dir = `/tmp/${sandbox.sandboxId}/deep`
    await files.write(`${dir}/old/file`, 'x')
    const seen = []
    const watch = await files.watchDir(dir, event => { seen.push(`${event.type} ${event.name}`) }, { recursive: true, timeoutMs: 0 })
    await files.write(`${dir}/old/file`, 'y')
    await until(() => seen.includes('write old/file'))
    await files.makeDir(`${dir}/new`)
    await until(() => seen.includes('create new'))
    await files.write(`${dir}/new/file`, 'x')
    await until(() => seen.includes('write new/file'))
    await watch.stop()
  })

  await step('files.watchDir', 'watch non-existing directory; watch file', async () => {
    await throwsOf(files.watchDir('none', () => {}), sdk.FileNotFoundError ?? sdk.NotFoundError)
    await files.write('no-directory', 'x')
    await throwsOf(files.watchDir('no-directory', () => {}), sdk.SandboxError)
  })

  await step('files.watchDir', 'a watch whose connection was cut says so', async () => {
    const through = await relay(process.env.E2B_SANDBOX_URL)
    const far = await sdk.Sandbox.connect(sandbox.sandboxId, { sandboxUrl: through.url })
    const ended = new Promise(resolve => { far.files.watchDir('/tmp', () => {}, { onExit: resolve, timeoutMs: 0 }).then(() => through.cut()) })
    if (!(await ended instanceof Error)) throw new Error('it ended without an error')
    through.close()
  })

  const later = { includeEntry: '2.45.0', allowNetworkMounts: '2.45.0' }
  const known = Object.keys(later).filter(option => since(later[option]))
  if (known.length === 0) return absent('files.watchDir with includeEntry, allowNetworkMounts')
  await step('files.watchDir with includeEntry, allowNetworkMounts', 'watch directory changes with entry info, with network mounts allowed', async () => {
    for (const option of known) await throwsOf(files.watchDir('/tmp', () => {}, { [option]: true }), sdk.TemplateError)
  }, 'not served')
}
