// Walks a version of E2B's SDK through what its users do, unmodified, by environment variables only:
//
//   client.mjs VERSION SERVER
//
// SERVER is a program that listens for WebSockets. It prints each step that was right, as a line of JSON
// (walk.mjs). The variable GROUPS may name those of the groups of steps that are walked, PODS that sandboxes
// are pods.
import { readFileSync } from 'node:fs'
import { step } from './walk.mjs'

const [version, server] = process.argv.slice(2)
const groups = process.env.GROUPS?.split(' ') ?? []
const sdk = await import(`e2b-${version}`)

// since tells whether the version is this one or newer.
function since (least) {
  const [a, b] = [version, least].map(v => v.split('.').map(Number))
  const i = a.findIndex((n, i) => n !== b[i])
  return i < 0 || a[i] > b[i]
}

const walk = { sdk, since, version, server: () => readFileSync(server), pods: Boolean(process.env.PODS) }
const groupsOfOne = ['sandboxes', 'commands', 'terminals', 'files', 'watches', 'servers', 'git', 'errors'] // in one sandbox, one after the other
const groupsOfTheirOwn = ['lists', ...walk.pods ? ['timeouts', 'pauses', 'pools', 'networks'] : ['snapshots']] // at the same time
const wanted = name => groups.length === 0 || groups.includes(name)

const go = async name => {
  const start = Date.now()
  await (await import(`./${name}.mjs`)).default(walk)
  console.log(`${name} took ${Date.now() - start} ms`)
}

async function one () {
  const metadata = { walk: `${version} in ${process.pid}`, team: 'red', 'what for?': 'a/b & "c"' } // no labels: they have spaces
  await step('Sandbox.create', 'create', async () => {
    walk.sandbox = await sdk.Sandbox.create({ metadata, envs: { COLOUR: 'blue' }, timeoutMs: 600_000 })
  })
  walk.metadata = metadata
  for (const name of groupsOfOne) if (wanted(name)) await go(name)
  await (await import('./ends.mjs')).default(walk)
}
await Promise.all([one(), ...groupsOfTheirOwn.filter(wanted).map(go)])
process.exit(0)
