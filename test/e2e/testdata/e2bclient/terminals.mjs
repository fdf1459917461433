// Terminals.
import assert from 'node:assert/strict'
import { bytesOf, relay, step, text, until } from './walk.mjs'

const most = 'pty.create, pty.sendInput, pty.resize, pty.kill'

export default async ({ sdk: { Sandbox, CommandExitError }, sandbox: { sandboxId, pty, commands } }) => {
  await step(most, 'create PTY with an environment, send input, exit', async () => {
    let screen = ''
    const terminal = await pty.create({ cols: 80, rows: 24, onData: data => { screen += text(data) }, envs: { ABC: '123' }, cwd: '/tmp' })
    await pty.sendInput(terminal.pid, bytesOf('echo "<$ABC $(pwd)>"\nexit\n'))
    await terminal.wait()
    assert.equal(terminal.exitCode, 0)
    assert.match(screen, /<123 \/tmp>/)
  })

  await step([most, 'pty.connect'], 'resize; connect/reconnect; kill PTY', async () => {
    let screen = ''
    const onData = data => { screen += text(data) }
    const shown = part => until(() => screen.includes(part))
    const terminal = await pty.create({ cols: 80, rows: 24, onData, timeoutMs: 0 })
    await pty.sendInput(terminal.pid, bytesOf('stty size\n'))
    await shown('24 80')
    await pty.resize(terminal.pid, { cols: 100, rows: 30 })
    await pty.sendInput(terminal.pid, bytesOf('stty size\n'))
    await shown('30 100')
    await terminal.disconnect()
    screen = ''
    const again = await pty.connect(terminal.pid, { onData, timeoutMs: 0 })
    assert.equal(again.pid, terminal.pid)
    await shown('30 100') // from before
    await pty.sendInput(terminal.pid, bytesOf('echo and "on"\n'))
    await shown('and on')
    assert.equal(await pty.kill(terminal.pid), true)
    await assert.rejects(again.wait(), CommandExitError)
    await until(async () => !(await commands.list()).some(p => p.pid === terminal.pid))
  })

  await step('pty.connect', 'reconnect after the connection of a PTY was cut', async () => {
    const through = await relay(process.env.E2B_SANDBOX_URL)
    const far = await Sandbox.connect(sandboxId, { sandboxUrl: through.url })
    let screen = ''
    const onData = data => { screen += text(data) }
    const cut = await far.pty.create({ cols: 80, rows: 24, onData, timeoutMs: 0 })
    await far.pty.sendInput(cut.pid, bytesOf('echo before the "cut"\n'))
    await until(() => screen.includes('before the cut'))
    through.cut()
    await assert.rejects(cut.wait())
    through.close()
    screen = ''
    const again = await pty.connect(cut.pid, { onData, timeoutMs: 0 })
    await pty.sendInput(cut.pid, bytesOf('echo after the "cut"; exit\n'))
    await again.wait()
    assert.match(screen, /before the cut[^]*after the cut/)
  })

  await step(most, 'kill non-existing PTY', async () => assert.equal(await pty.kill(999999), false))
}
