// Walks a version of E2B's SDK through what its users do, unmodified, by environment variables only:
//
//   client.mjs VERSION SERVER
//
// SERVER is a program that listens for WebSockets. It prints each step that was right.
import assert from 'node:assert/strict'
import { readFileSync } from 'node:fs'
import WebSocket from 'ws'

const [version, serverProgram] = process.argv.slice(2)
const sdk = await import(`e2b-${version}`)
const { Sandbox } = sdk
const modern = version !== '2.14.1'

async function step (name, walk) {
  try {
    await walk()
  } catch (err) {
    console.error(`${name}: ${err.stack}`)
    process.exit(1)
  }
  console.log(name)
}

// until waits for what comes true in the end. The test that runs this program bounds it.
async function until (holds) {
  while (!(await holds())) await new Promise(resolve => setTimeout(resolve, 50))
}

async function all (paginator) {
  const items = []
  while (paginator.hasNext) items.push(await paginator.nextItems())
  return items
}

const text = bytes => new TextDecoder().decode(bytes)
const tag = `walk of ${version}` // no label: it has spaces
const metadata = { walk: tag, team: 'red', 'what for?': 'a/b & "c"' }
const sandbox = await Sandbox.create({ metadata, envs: { COLOUR: 'blue' }, timeoutMs: 600_000 })
const { commands, files } = sandbox

await step('create says what was made', async () => {
  const info = await sandbox.getInfo()
  assert.equal(info.sandboxId, sandbox.sandboxId)
  assert.equal(info.templateId, 'base')
  assert.equal(info.state, 'running')
  assert.deepEqual(info.metadata, metadata)
  assert.ok(info.endAt > new Date())
})

await step('commands have output, an exit code, a directory and an environment', async () => {
  const ran = await commands.run('echo out; echo err >&2; echo "$COLOUR $SHAPE"; pwd', { cwd: '/tmp', envs: { SHAPE: 'round' } })
  assert.deepEqual([ran.exitCode, ran.stdout, ran.stderr], [0, 'out\nblue round\n/tmp\n', 'err\n'])
  await assert.rejects(commands.run('echo so; exit 7'), err => err instanceof sdk.CommandExitError && err.exitCode === 7 && err.stdout === 'so\n')
})

await step('output comes as it is written', async () => {
  const seen = []
  const onStdout = async data => {
    seen.push(data)
    if (seen.length === 1) await files.write('/tmp/seen', '')
  }
  await commands.run('echo one; while [ ! -e /tmp/seen ]; do sleep 0.05; done; echo two', { onStdout })
  assert.equal(seen.join(''), 'one\ntwo\n')
})

await step('a command in the background is listed, killed, and not found after that', async () => {
  const command = await commands.run('sleep 1000', { background: true })
  assert.ok((await commands.list()).some(p => p.pid === command.pid))
  assert.equal(await command.kill(), true)
  await assert.rejects(command.wait(), sdk.CommandExitError)
  await until(async () => !(await commands.list()).some(p => p.pid === command.pid))
  assert.equal(await commands.kill(command.pid), false)
})

await step('input reaches a command', async () => {
  const command = await commands.run('read a; read b; echo "$b $a"', { background: true, stdin: true })
  await commands.sendStdin(command.pid, 'first\n')
  await commands.sendStdin(command.pid, 'second\n')
  assert.equal((await command.wait()).stdout, 'second first\n')
  if (modern) {
    const cat = await commands.run('cat', { background: true, stdin: true })
    await commands.sendStdin(cat.pid, 'all')
    await commands.closeStdin(cat.pid)
    assert.equal((await cat.wait()).stdout, 'all')
  }
})

await step('who connects after a lost connection has all output', async () => {
  const command = await commands.run('echo before; while [ ! -e /tmp/go ]; do sleep 0.05; done; echo after', { background: true, timeoutMs: 0 })
  await command.disconnect()
  const again = await Sandbox.connect(sandbox.sandboxId)
  const found = await again.commands.connect(command.pid)
  await again.files.write('/tmp/go', '')
  assert.equal((await found.wait()).stdout, 'before\nafter\n')
})

await step('a command that takes too long ends', async () => {
  let pid = ''
  for (let timeoutMs = 1000; !pid; timeoutMs *= 2) { // a busy node may take long to start it
    const onStdout = data => { pid += data }
    await assert.rejects(commands.run('echo $$; exec sleep 1000', { timeoutMs, onStdout }), sdk.TimeoutError)
  }
  pid = pid.trim()
  await until(async () => (await commands.run(`kill -0 ${pid} 2>/dev/null || echo gone`)).stdout === 'gone\n')
})

await step('files have text, bytes and streams', async () => {
  const dir = '/tmp/files'
  const written = await files.write(`${dir}/deep/a.txt`, 'hällo')
  assert.deepEqual([written.name, written.path, written.type], ['a.txt', `${dir}/deep/a.txt`, 'file'])
  assert.equal(await files.read(`${dir}/deep/a.txt`), 'hällo')
  const bytes = Uint8Array.from({ length: 256 }, (_, i) => i)
  await files.write(`${dir}/bytes`, bytes.buffer)
  assert.deepEqual(await files.read(`${dir}/bytes`, { format: 'bytes' }), bytes)
  await files.write(`${dir}/blob`, new Blob([bytes]))
  assert.equal((await files.read(`${dir}/blob`, { format: 'blob' })).size, 256)
  await files.write(`${dir}/stream`, new Blob(['streamed']).stream())
  const parts = []
  for await (const part of await files.read(`${dir}/stream`, { format: 'stream' })) parts.push(part)
  assert.equal(text(Buffer.concat(parts)), 'streamed')
  await files.write(`${dir}/empty`, '')
  assert.equal(await files.read(`${dir}/empty`), '')
  await files.write([{ path: `${dir}/1`, data: 'one' }, { path: `${dir}/2`, data: 'two' }])
  assert.equal(await files.read(`${dir}/1`) + await files.read(`${dir}/2`), 'onetwo')
})

await step('a large file comes back as it went', async () => {
  const large = new Uint8Array(16 << 20).map((_, i) => i * 2654435761 >>> 24)
  await files.write('/tmp/large', large.buffer)
  assert.ok(Buffer.from(await files.read('/tmp/large', { format: 'bytes' })).equals(Buffer.from(large)))
})

await step('directories are made, listed, renamed and removed', async () => {
  assert.equal(await files.makeDir('/tmp/tree/sub'), true)
  assert.equal(await files.makeDir('/tmp/tree/sub'), false)
  await files.write('/tmp/tree/file', 'x')
  assert.deepEqual((await files.list('/tmp/tree')).map(e => [e.name, e.type]).sort(), [['file', 'file'], ['sub', 'dir']])
  assert.equal((await files.list('/tmp/tree', { depth: 2 })).length, 2)
  assert.equal((await files.rename('/tmp/tree/file', '/tmp/tree/sub/moved')).path, '/tmp/tree/sub/moved')
  assert.equal(await files.exists('/tmp/tree/file'), false)
  assert.equal((await files.getInfo('/tmp/tree/sub/moved')).size, 1)
  await files.remove('/tmp/tree')
  assert.equal(await files.exists('/tmp/tree'), false)
})

await step('changes are watched', async () => {
  await files.makeDir('/tmp/watched')
  const seen = []
  const watch = await files.watchDir('/tmp/watched', event => { seen.push(`${event.type} ${event.name}`) }, { recursive: true, timeoutMs: 0 })
  await files.write('/tmp/watched/new', 'x')
  await until(() => seen.includes('create new') || seen.includes('write new'))
  await watch.stop()
})

if (modern) {
  await step('what is newer than the version of envd is refused, and not left out', async () => {
    await assert.rejects(files.write('/tmp/described', 'x', { metadata: { a: 'b' } }), sdk.TemplateError)
    assert.equal(await files.exists('/tmp/described'), false)
    await assert.rejects(files.watchDir('/tmp', () => {}, { includeEntry: true }), sdk.TemplateError)
    await assert.rejects(files.watchDir('/tmp', () => {}, { allowNetworkMounts: true }), sdk.TemplateError)
  })
}

await step('a terminal is resized, takes input, and is found again', async () => {
  let screen = ''
  const onData = data => { screen += text(data) }
  const shown = part => until(() => screen.includes(part))
  const pty = await sandbox.pty.create({ cols: 80, rows: 24, onData, timeoutMs: 0 })
  await sandbox.pty.sendInput(pty.pid, new TextEncoder().encode('stty size\n'))
  await shown('24 80')
  await sandbox.pty.resize(pty.pid, { cols: 100, rows: 30 })
  await sandbox.pty.sendInput(pty.pid, new TextEncoder().encode('stty size\n'))
  await shown('30 100')
  await pty.disconnect()
  screen = ''
  const again = await sandbox.pty.connect(pty.pid, { onData, timeoutMs: 0 })
  await shown('30 100') // from before
  assert.equal(await sandbox.pty.kill(pty.pid), true)
  await assert.rejects(again.wait(), sdk.CommandExitError)
})

await step('sandboxes are listed by their metadata, in pages', async () => {
  const others = await Promise.all([1, 2].map(() => Sandbox.create({ metadata: { walk: tag }, timeoutMs: 600_000 })))
  const query = { metadata: { walk: tag } }
  const pages = await all(Sandbox.list({ query, limit: 2 }))
  assert.deepEqual(pages.map(page => page.length), [2, 1])
  assert.deepEqual(pages.flat().map(s => s.sandboxId).sort(), [sandbox, ...others].map(s => s.sandboxId).sort())
  const found = await all(Sandbox.list({ query: { metadata } }))
  assert.deepEqual(found.flat().map(s => s.sandboxId), [sandbox.sandboxId])
  assert.equal((await all(Sandbox.list({ query: { ...query, state: ['paused'] } }))).flat().length, 0)
  for (const other of others) await other.kill()
})

await step('a server is reached at its host, also by WebSocket', async () => {
  await files.write('/tmp/server', readFileSync(serverProgram).buffer)
  const server = await commands.run('chmod +x /tmp/server && exec /tmp/server', { background: true, timeoutMs: 0 })
  let port
  await until(async () => { port = /^http .*?(\d+)$/m.exec(server.stdout)?.[1]; return port && server.stdout.includes('ready') })
  const headers = { Host: sandbox.getHost(port), 'E2B-Traffic-Access-Token': sandbox.trafficAccessToken }
  assert.equal(await echo(headers), 'through the gateway')
  await assert.rejects(echo({ Host: headers.Host }), /401/) // the port is not public
  await server.kill()
})

// echo sends a message to the server of a host, and returns what comes back.
function echo (headers) {
  return new Promise((resolve, reject) => {
    const socket = new WebSocket(process.env.E2B_SANDBOX_URL.replace('http', 'ws') + '/socket', { headers })
    socket.on('error', reject)
    socket.on('open', () => socket.send('through the gateway'))
    socket.on('message', data => { socket.close(); resolve(String(data)) })
  })
}

await step('metrics say what is used', async () => {
  const [now] = await sandbox.getMetrics()
  assert.ok(now.timestamp instanceof Date && now.diskTotal > 0)
})

await step('errors have their classes', async () => {
  await assert.rejects(files.read('/tmp/missing'), sdk.NotFoundError)
  await assert.rejects(files.list('/tmp/missing'), sdk.NotFoundError)
  await assert.rejects(commands.run('true', { cwd: '/missing' }), sdk.SandboxError)
  if (process.env.PODS) await assert.rejects(commands.run('true', { user: 'root' }), /not supported/)
  await assert.rejects(Sandbox.create('missing'), /there is no template/)
  await assert.rejects(Sandbox.create({ allowInternetAccess: false }), /not supported/)
  await assert.rejects(sandbox.createSnapshot(), /not supported/)
  await assert.rejects(Sandbox.connect('s-missing'), sdk.NotFoundError)
  await assert.rejects(Sandbox.create({ apiKey: 'e2b_00' }), sdk.AuthenticationError)
  assert.equal(await Sandbox.kill('s-missing'), false)
  await assert.rejects(Sandbox.connect(sandbox.sandboxId, { apiKey: process.env.OTHER_KEY }), sdk.NotFoundError)
})

await step('the code interpreter says that it is not supported', async () => {
  const interpreter = await import('@e2b/code-interpreter')
  await assert.rejects(interpreter.Sandbox.create(), /not supported/)
  const connected = await interpreter.Sandbox.connect(sandbox.sandboxId)
  await assert.rejects(connected.runCode('1 + 1'), /not supported/)
})

if (process.env.PODS) {
  await step('a timeout ends a sandbox', async () => {
    const brief = await Sandbox.create({ timeoutMs: 600_000 })
    await brief.setTimeout(1000)
    await until(async () => !(await brief.isRunning()))
    await assert.rejects(brief.commands.run('true'), sdk.NotFoundError)
    await until(async () => !(await Sandbox.kill(brief.sandboxId)))
  })

  await step('a pause keeps files, and connect resumes', async () => {
    const kept = await Sandbox.create({ lifecycle: { onTimeout: 'pause' }, timeoutMs: 600_000 })
    await kept.files.write('kept', 'still here')
    assert.ok(await kept.betaPause())
    await assert.rejects(kept.commands.run('true'), sdk.NotFoundError)
    assert.equal(await kept.isRunning(), false)
    assert.equal((await kept.getInfo()).state, 'paused')
    assert.equal(await kept.betaPause(), false)
    const again = await Sandbox.connect(kept.sandboxId)
    assert.equal(await again.files.read('kept'), 'still here')
    await again.setTimeout(1000)
    await until(async () => (await again.getInfo()).state === 'paused')
    const oncemore = await Sandbox.connect(kept.sandboxId)
    assert.equal(await oncemore.files.read('kept'), 'still here')
    await oncemore.kill()
  })

  await step('a sandbox of a template that resumes by itself does so for a call', async () => {
    const napping = await Sandbox.create('named', { lifecycle: { onTimeout: 'pause', autoResume: true }, timeoutMs: 600_000 })
    assert.equal((await napping.getInfo()).templateId, 'named')
    await napping.files.write('kept', 'still here')
    assert.ok(await napping.betaPause())
    assert.equal(await napping.isRunning(), false)
    assert.equal((await napping.commands.run('cat kept')).stdout, 'still here')
    await napping.kill()
  })
}

await step('a sandbox that was killed is not running', async () => {
  assert.equal(await sandbox.isRunning(), true)
  assert.equal(await Sandbox.kill(sandbox.sandboxId), true)
  assert.equal(await sandbox.isRunning(), false)
  await assert.rejects(commands.run('true'), sdk.NotFoundError)
  await assert.rejects(files.read('/tmp/1'), sdk.TimeoutError)
  await assert.rejects(sandbox.getInfo(), sdk.NotFoundError)
  assert.equal(await Sandbox.kill(sandbox.sandboxId), false)
})
process.exit(0)
