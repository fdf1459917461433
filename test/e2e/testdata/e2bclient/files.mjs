// Files: what is in them, and where they are.
import assert from 'node:assert/strict'
import { createHash } from 'node:crypto'
import { request } from 'node:http'
import { absent, step, text, throwsOf } from './walk.mjs'

const read = 'files.read as text, bytes, blob, stream'
const write = 'files.write of text, bytes, streams'
const trees = 'files.makeDir, files.rename, files.remove'
const infos = 'files.getInfo, files.exists'

async function joined (stream) {
  const parts = []
  for await (const part of stream) parts.push(part)
  return Buffer.concat(parts)
}

export default async walk => {
  const { sdk, since, sandbox: { sandboxId, files, commands } } = walk
  const dir = `/tmp/${sandboxId}/files`
  const missing = sdk.FileNotFoundError ?? sdk.NotFoundError

  await step([read, write], 'write and read text, bytes, a Blob and a stream', async () => {
    const written = await files.write(`${dir}/deep/a.txt`, 'hällo')
    assert.deepEqual([written.name, written.path, written.type], ['a.txt', `${dir}/deep/a.txt`, 'file'])
    assert.equal(await files.read(`${dir}/deep/a.txt`), 'hällo')
    const bytes = Uint8Array.from({ length: 256 }, (_, i) => i)
    await files.write(`${dir}/bytes`, bytes.buffer)
    assert.deepEqual(await files.read(`${dir}/bytes`, { format: 'bytes' }), bytes)
    await files.write(`${dir}/blob`, new Blob([bytes]))
    assert.equal((await files.read(`${dir}/blob`, { format: 'blob' })).size, 256)
    const long = 'Streamed content. '.repeat(10_000)
    await files.write(`${dir}/stream`, new Blob([long]).stream())
    assert.equal(text(await joined(await files.read(`${dir}/stream`, { format: 'stream' }))), long)
  })

  await step(write, 'overwrite file; write to non-existing directory; a path of the working directory', async () => {
    for (const content of ['Initial content.', 'New content.', '']) {
      const { path } = await files.write('written/here/file.txt', content)
      assert.equal(path, `${(await commands.run('pwd')).stdout.trim()}/written/here/file.txt`)
      assert.equal(await files.read('written/here/file.txt'), content)
    }
    await assert.rejects(files.write(undefined, 'x'), /Path or files are required/)
    await files.remove('written')
  })

  await step(read, 'read empty file in all formats', async () => {
    await commands.run(`: > ${dir}/empty`)
    const as = format => files.read(`${dir}/empty`, { format })
    assert.equal(await as('text'), '')
    assert.deepEqual(await as('bytes'), new Uint8Array())
    if (!since('2.32.0')) return // it loses empty ones of the other formats by itself
    assert.equal((await as('blob')).size, 0)
    assert.equal((await joined(await as('stream'))).length, 0)
  })

  await step(read, 'read non-existing file, also as a stream', async () => {
    for (const format of ['text', 'bytes', 'stream']) await throwsOf(files.read(`${dir}/none`, { format }), missing)
  })

  await step('files.write of several', 'write multiple files, none, of several kinds, over others, into new directories', async () => {
    assert.deepEqual(await files.write([]), [])
    const data = ['text', new TextEncoder().encode('ArrayBuffer').buffer, new Blob(['Blob']), new Blob(['stream']).stream()]
    const written = await files.writeFiles(data.map((data, i) => ({ path: `${dir}/many/${i}/file`, data })))
    assert.deepEqual(written.map(w => [w.path, w.name, w.type]), data.map((_, i) => [`${dir}/many/${i}/file`, 'file', 'file']))
    const contents = () => Promise.all(data.map((_, i) => files.read(`${dir}/many/${i}/file`)))
    assert.deepEqual(await contents(), ['text', 'ArrayBuffer', 'Blob', 'stream'])
    await files.write(data.map((_, i) => ({ path: `${dir}/many/${i}/file`, data: `${i}` })))
    assert.deepEqual(await contents(), ['0', '1', '2', '3'])
  })

  if (since('2.32.0')) {
    await step([read, write, 'files.write of several'], 'gzip content encoding; octet stream upload, also of a stream', async () => {
      const content = 'Zipped. '.repeat(10_000)
      await files.write(`${dir}/zipped`, content, { gzip: true })
      assert.equal(await files.read(`${dir}/zipped`, { gzip: true }), content)
      assert.equal(await files.read(`${dir}/zipped`), content)
      assert.equal(text(await files.read(`${dir}/zipped`, { format: 'bytes', gzip: true })), content)
      await files.writeFiles([1, 2].map(i => ({ path: `${dir}/zipped${i}`, data: `${i}` })), { gzip: true })
      assert.equal(await files.read(`${dir}/zipped2`), '2')
      for (const gzip of [false, true]) {
        await files.write(`${dir}/octets`, new Blob([content]).stream(), { useOctetStream: true, gzip })
        assert.equal(await files.read(`${dir}/octets`), content)
        await files.remove(`${dir}/octets`)
      }
    })
  }

  await step([read, write], 'a file of 100 MiB comes back as it went', async () => {
    const piece = Buffer.alloc(1 << 20, Uint8Array.from({ length: 65537 }, (_, i) => i * 2654435761 >>> 24))
    const want = createHash('sha256')
    for (let i = 0; i < 100; i++) want.update(piece)
    await files.write(`${dir}/large`, new Blob(Array(100).fill(piece)))
    const got = createHash('sha256')
    for await (const part of await files.read(`${dir}/large`, { format: 'stream' })) got.update(part)
    assert.equal(got.digest('hex'), want.digest('hex'))
    await files.remove(`${dir}/large`)
  })

  await step([trees, infos], 'make directory, existing, nested; rename and remove file, and non-existing file', async () => {
    const tree = `${dir}/tree`
    assert.equal(await files.makeDir(`${tree}/sub`), true)
    assert.equal(await files.makeDir(`${tree}/sub`), false)
    await files.write(`${tree}/file`, 'x')
    const renamed = await files.rename(`${tree}/file`, `${tree}/sub/moved`)
    assert.deepEqual([renamed.name, renamed.type, renamed.path], ['moved', 'file', `${tree}/sub/moved`])
    assert.deepEqual([await files.exists(`${tree}/file`), await files.exists(`${tree}/sub/moved`)], [false, true])
    await throwsOf(files.rename(`${tree}/file`, `${tree}/other`), missing)
    await files.remove(tree)
    assert.equal(await files.exists(tree), false)
    await files.remove(tree)
  })

  await step(infos, 'get info of a file, a directory, a symlink, and what does not exist', async () => {
    const at = `${dir}/infos`
    await files.write(`${at}/file`, 'test')
    await commands.run(`chmod 644 file; ln -s file link; mkdir -m 755 sub; ln -s none broken`, { cwd: at })
    const file = await files.getInfo(`${at}/file`)
    assert.deepEqual([file.name, file.type, file.path, file.size, file.mode, file.permissions], ['file', 'file', `${at}/file`, 4, 0o644, '-rw-r--r--'])
    assert.ok(file.owner && file.group && file.modifiedTime instanceof Date && file.symlinkTarget === undefined)
    const sub = await files.getInfo(`${at}/sub`)
    assert.deepEqual([sub.name, sub.type, sub.path, sub.mode, sub.permissions], ['sub', 'dir', `${at}/sub`, 0o755, 'drwxr-xr-x'])
    const link = await files.getInfo(`${at}/link`)
    assert.deepEqual([link.name, link.symlinkTarget], ['link', `${at}/file`])
    await throwsOf(files.getInfo(`${at}/none`), missing)
    assert.equal(await files.exists(`${at}/none`), false)
  })

  await step('files.list', 'list directory to depths; entry details; invalid depth', async () => {
    const at = `${dir}/listed`
    await commands.run(`mkdir -p sub1/sub1_1 sub1/sub1_2 sub2/sub2_1; printf Hello > file1.txt; chmod 644 file1.txt; chmod 755 sub1`, { cwd: (await files.makeDir(at), at) })
    const names = async opts => (await files.list(at, opts)).map(e => `${e.type} ${e.path.slice(at.length + 1)}`).sort()
    const one = ['dir sub1', 'dir sub2', 'file file1.txt']
    const two = ['dir sub1', 'dir sub1/sub1_1', 'dir sub1/sub1_2', 'dir sub2', 'dir sub2/sub2_1', 'file file1.txt']
    assert.deepEqual([await names(), await names({ depth: 1 }), await names({ depth: 2 }), await names({ depth: 3 })], [one, one, two, two])
    const entries = Object.fromEntries((await files.list(at)).map(e => [e.name, e]))
    const { name, type, path, size, mode, permissions, modifiedTime } = entries['file1.txt']
    assert.deepEqual([name, type, path, size, mode, permissions], ['file1.txt', 'file', `${at}/file1.txt`, 5, 0o644, '-rw-r--r--'])
    assert.ok(modifiedTime instanceof Date)
    assert.deepEqual([entries.sub1.type, entries.sub1.mode], ['dir', 0o755])
    await throwsOf(files.list(at, { depth: -1 }), sdk.InvalidArgumentError, /depth should be at least one/)
    await throwsOf(files.list(`${at}/none`), missing)
  })

  if (since('2.45.0')) {
    await step('files.write with metadata', 'write file with metadata', async () => {
      await throwsOf(files.write(`${dir}/labelled`, 'x', { metadata: { author: 'me' } }), sdk.TemplateError)
      await throwsOf(files.write(`${dir}/labelled`, 'x', { metadata: { 'bad key': 'x' } }), sdk.SandboxError)
      assert.equal(await files.exists(`${dir}/labelled`), false)
    }, 'not served')
  } else {
    absent('files.write with metadata')
  }
  await urls(walk, dir)
}

async function urls ({ sandbox, sdk }, dir) {
  const { files } = sandbox
  const host = `49983-${sandbox.sandboxId}.sandboxes.test`
  // ask sends a request for a URL of the SDK's to the host that E2B_SANDBOX_URL takes out of it.
  const ask = (url, method, body) => new Promise((resolve, reject) => {
    const { hostname, port, pathname, search } = new URL(url)
    const headers = { Host: host, ...body === undefined ? {} : { 'Content-Type': 'application/octet-stream', 'Content-Length': body.length } }
    const sent = request({ hostname, port, path: pathname + search, method, headers }, async res => resolve([res.statusCode, text(await joined(res))]))
    sent.on('error', reject).end(body)
  })

  await step('downloadUrl, uploadUrl', 'access file with valid, expired and no signing; upload file with signing', async () => {
    const [path, valid, over] = [`${dir}/signed`, { useSignatureExpiration: 10_000 }, { useSignatureExpiration: -10_000 }]
    await files.write(path, 'hello world')
    assert.deepEqual(await ask(await sandbox.downloadUrl(path), 'GET'), [200, 'hello world'])
    assert.deepEqual(await ask(await sandbox.downloadUrl(path, valid), 'GET'), [200, 'hello world'])
    assert.equal((await ask((await sandbox.downloadUrl(path)).replace(/signature=[^&]*/, ''), 'GET'))[0], 401)
    for (const [url, method, body] of [[await sandbox.downloadUrl(path, over), 'GET'], [await sandbox.uploadUrl(path, over), 'POST', 'x']]) {
      const [status, answer] = await ask(url, method, body)
      assert.equal(status, 401)
      assert.equal(JSON.parse(answer).code, 401)
    }
    const [status, answer] = await ask(await sandbox.uploadUrl(path, valid), 'POST', 'from a URL')
    assert.deepEqual([status, JSON.parse(answer)], [200, [{ name: 'signed', path, type: 'file' }]])
    assert.equal(await files.read(path), 'from a URL')
    const named = await fetch(await sandbox.downloadUrl(path)) // by E2B_SANDBOX_URL, which names no sandbox
    assert.equal(named.status, 400)
  })
}
