// Commands: how they run, end, and are found again.
import assert from 'node:assert/strict'
import { absent, bytesOf, relay, step, throwsOf, until } from './walk.mjs'

export default async ({ sdk, since, sandbox }) => {
  const { Sandbox, CommandExitError, TimeoutError } = sdk
  const { commands, files } = sandbox

  await step(['commands.run', 'onStdout, onStderr, wait'], 'run: output, exit code, directory', async () => {
    const ran = await commands.run('echo out; echo err >&2; pwd', { cwd: '/tmp' })
    assert.deepEqual([ran.exitCode, ran.stdout, ran.stderr], [0, 'out\n/tmp\n', 'err\n'])
    await assert.rejects(commands.run('echo so; exit 7'), err => err instanceof CommandExitError && err.exitCode === 7 && err.stdout === 'so\n')
  })

  await step('commands.run', 'run with special characters, with a multiline string', async () => {
    for (const text of ['!@#$%^&*()_+', 'Hello,\nWorld!', 'hällo 😀']) assert.equal((await commands.run(`echo "${text}"`)).stdout, `${text}\n`)
  })

  await step('commands.run', 'environments: the sandbox\'s, and those of a command', async () => {
    const shown = async envs => (await commands.run('echo "$COLOUR $SHAPE"', { envs })).stdout
    assert.equal(await shown({ SHAPE: 'round' }), 'blue round\n')
    assert.equal(await shown({ COLOUR: 'red' }), 'red \n')
    assert.equal(await shown({}), 'blue \n')
  })

  await step('onStdout, onStderr, wait', 'output comes as it is written', async () => {
    const seen = []
    const onStdout = async data => {
      seen.push(data)
      if (seen.length === 1) await files.write('seen', '')
    }
    await commands.run('echo one; while [ ! -e seen ]; do sleep 0.05; done; echo two', { onStdout })
    assert.equal(seen.join(''), 'one\ntwo\n')
  })

  await step('onStdout, onStderr, wait', 'output of multibyte characters is whole', async () => {
    const line = '😀é'.repeat(20_000)
    await files.write('multibyte', line)
    let seen = ''
    const ran = await commands.run('cat multibyte; cat multibyte >&2', { onStdout: data => { seen += data } })
    assert.deepEqual([ran.stdout === line, ran.stderr === line, seen === line], [true, true, true])
  })

  await step(['commands.run in the background', 'commands.list', 'commands.kill, handle.kill'], 'list processes; kill process', async () => {
    const started = await Promise.all([1, 2].map(() => commands.run('sleep 1000', { background: true })))
    const listed = async () => (await commands.list()).map(p => p.pid)
    const pids = await listed()
    for (const { pid } of started) assert.ok(pids.includes(pid))
    assert.equal(await started[0].kill(), true)
    assert.equal(await commands.kill(started[1].pid), true)
    for (const command of started) {
      await assert.rejects(command.wait(), CommandExitError)
      await until(async () => !(await listed()).includes(command.pid))
      await assert.rejects(commands.run(`kill -0 ${command.pid}`), CommandExitError)
    }
  })

  await step(['commands.kill, handle.kill', 'commands.connect'], 'kill, and connect to, a non-existing process', async () => {
    assert.equal(await commands.kill(999999), false)
    await throwsOf(commands.connect(999999), sdk.NotFoundError)
  })

  await step('commands.sendStdin', 'send text, bytes, nothing, special characters and lines to stdin', async () => {
    const sent = ['Hello, World!', ...since('2.32.0') ? [bytesOf('bytes')] : [], '', '!@#$%^&*()_+', 'Hello,\nWorld!']
    const cat = await commands.run('cat', { background: true, stdin: true })
    for (const data of sent) await commands.sendStdin(cat.pid, data)
    const all = sent.map(String).join('').replace(String(bytesOf('bytes')), 'bytes')
    await until(() => cat.stdout === all)
    await cat.kill()
  })

  await step('commands.sendStdin', 'send stdin to a command that reads lines', async () => {
    const command = await commands.run('read a; read b; echo "$b $a"', { background: true, stdin: true })
    await commands.sendStdin(command.pid, 'first\n')
    await commands.sendStdin(command.pid, 'second\n')
    assert.equal((await command.wait()).stdout, 'second first\n')
  })

  if (since('2.32.0')) {
    await step('commands.closeStdin', 'close stdin, also by the handle of a command', async () => {
      const cat = await commands.run('cat', { background: true, stdin: true })
      await commands.sendStdin(cat.pid, 'all')
      await commands.closeStdin(cat.pid)
      assert.equal((await cat.wait()).stdout, 'all')
      if (!since('2.45.0')) return
      const other = await commands.run('cat', { background: true, stdin: true })
      await other.sendStdin('all')
      await other.closeStdin()
      assert.deepEqual([(await other.wait()).stdout, other.exitCode], ['all', 0])
    })
  } else {
    absent('commands.closeStdin')
  }

  await step('commands.connect', 'connect to process, after disconnect', async () => {
    const seen = []
    const command = await commands.run('echo before; while [ ! -e go ]; do sleep 0.05; done; echo after', { background: true, timeoutMs: 0, onStdout: data => seen.push(data) })
    await until(() => seen.length > 0)
    await command.disconnect()
    const again = await Sandbox.connect(sandbox.sandboxId)
    const found = await again.commands.connect(command.pid, { timeoutMs: 0 })
    assert.equal(found.pid, command.pid)
    await again.files.write('go', '')
    assert.equal((await found.wait()).stdout, 'before\nafter\n')
    assert.deepEqual(seen, ['before\n'])
  })

  await step(['commands.connect', 'commands.run in the background'], 'connect to process after its connection was cut: all output', async () => {
    const line = 'a line of the output that must not be lost\n'
    const script = `yes '${line.trim()}' | head -n 20000; while [ ! -e cut ]; do sleep 0.05; done; yes '${line.trim()}' | head -n 20000`
    const through = await relay(process.env.E2B_SANDBOX_URL)
    const far = await Sandbox.connect(sandbox.sandboxId, { sandboxUrl: through.url })
    let seen = 0
    const command = await far.commands.run(script, { background: true, timeoutMs: 0, onStdout: data => { seen += data.length } })
    await until(() => seen > 0)
    through.cut()
    await assert.rejects(command.wait())
    through.close()
    assert.ok((await commands.list()).some(p => p.pid === command.pid), 'the command ended with its connection')
    await files.write('cut', '')
    const found = await commands.connect(command.pid, { timeoutMs: 0 })
    const { stdout, exitCode } = await found.wait()
    assert.deepEqual([exitCode, stdout.length, stdout === line.repeat(40000)], [0, 40000 * line.length, true])
  })

  await step('commands.run', 'run with too short timeout, also in the background', async () => {
    const background = commands.run('sleep 1000', { background: true, timeoutMs: 2000 }).then(command => command.wait())
    const late = throwsOf(background, TimeoutError)
    let pid = ''
    for (let timeoutMs = 1000; !pid; timeoutMs *= 2) { // a busy node may take long to start it
      const onStdout = data => { pid += data }
      await throwsOf(commands.run('echo $$; exec sleep 1000', { timeoutMs, onStdout }), TimeoutError)
    }
    await until(async () => (await commands.run(`kill -0 ${pid.trim()} 2>/dev/null || echo gone`)).stdout === 'gone\n')
    await late
  })

  await step('timeoutMs of a connect', 'connect to process with too short timeout', async () => {
    const command = await commands.run('sleep 1000', { background: true, timeoutMs: 0 })
    await throwsOf(commands.connect(command.pid, { timeoutMs: 500 }).then(found => found.wait()), TimeoutError)
    assert.ok((await commands.list()).some(p => p.pid === command.pid))
    await command.kill()
  })
}
