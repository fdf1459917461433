// What the steps of a walk share.
import assert from 'node:assert/strict'
import { connect, createServer } from 'node:net'

// A step is a case, mostly one of those by which the SDK's own tests are named. If it goes as it should, it
// prints how the operations went that it shows, as rows of test/contracts/rows/e2b.yaml name them.
export async function step (operations, name, walk, outcome = 'works') {
  try {
    await walk()
  } catch (err) {
    console.error(`${name}: ${err.stack}`)
    process.exit(1)
  }
  for (const operation of [operations].flat()) tell(operation, outcome, name)
}

const tell = (operation, outcome, name) => console.log(JSON.stringify({ operation, outcome, case: name }))

// absent says that this version of the SDK has no such operation.
export const absent = operation => tell(operation, 'absent', 'this version has none')

// until waits for what comes true in the end. The test that runs this program bounds it.
export async function until (holds) {
  while (!(await holds())) await new Promise(resolve => setTimeout(resolve, 50))
}

// isRunning is a sandbox's, asked again where neither the sandbox nor the cluster answered in time: that is 504.
export async function isRunning (sandbox) {
  for (;;) {
    try {
      return await sandbox.isRunning()
    } catch (err) {
      assert.match(err.message, /^504:/)
    }
  }
}

// all returns the pages of a list.
export async function all (paginator) {
  const pages = []
  while (paginator.hasNext) pages.push(await paginator.nextItems())
  return pages
}

export const text = bytes => new TextDecoder().decode(bytes)
export const bytesOf = text => new TextEncoder().encode(text)

// throwsOf expects an error of a class, or of the nearest one above it that this version has, that says something.
export async function throwsOf (promise, Class, says = /./) {
  await assert.rejects(promise, err => {
    if (!(err instanceof Class)) throw err
    assert.match(err.message, says)
    return true
  })
}

// relay passes connections on to the server of a URL, until they are cut.
export async function relay (url) {
  const { hostname, port } = new URL(url)
  const open = new Set()
  const server = createServer(near => {
    const far = connect(port, hostname)
    near.pipe(far).pipe(near)
    for (const [end, other] of [[near, far], [far, near]]) {
      open.add(end)
      end.on('error', () => {}).on('close', () => { open.delete(end); other.destroy() })
    }
  })
  await new Promise(resolve => server.listen(0, '127.0.0.1', resolve))
  return {
    url: `http://127.0.0.1:${server.address().port}`,
    cut: () => { for (const end of open) end.resetAndDestroy() },
    close: () => server.close()
  }
}
