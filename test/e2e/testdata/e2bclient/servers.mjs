// Servers in sandboxes.
import assert from 'node:assert/strict'
import { request } from 'node:http'
import WebSocket from 'ws'
import { step, until } from './walk.mjs'

// get asks the server of a host, again if that could not be looked up in time: that is 503.
const get = async headers => {
  let answer
  await until(async () => { answer = await getOnce(headers); return answer[0] !== 503 })
  return answer
}

const getOnce = headers => new Promise((resolve, reject) => {
  const { hostname, port } = new URL(process.env.E2B_SANDBOX_URL)
  request({ hostname, port, headers }, async res => {
    let text = ''
    for await (const part of res) text += part
    resolve([res.statusCode, text])
  }).on('error', reject).end()
})

// echo sends a message to the server of a host, and returns what comes back.
const echo = headers => new Promise((resolve, reject) => {
  const socket = new WebSocket(process.env.E2B_SANDBOX_URL.replace('http', 'ws') + '/socket', { headers })
  socket.on('error', reject)
  socket.on('open', () => socket.send('through the gateway'))
  socket.on('message', data => { socket.close(); resolve(String(data)) })
})

export const headersOf = (sandbox, port) => ({ Host: sandbox.getHost(port), 'E2B-Traffic-Access-Token': sandbox.trafficAccessToken })

// start starts the server in a sandbox, and returns its command and port.
export async function start ({ commands, files }, program) {
  await files.write('server', program.buffer)
  const server = await commands.run('chmod +x server && exec ./server', { background: true, timeoutMs: 0 })
  let port
  await until(async () => { port = /^http .*?(\d+)$/m.exec(server.stdout)?.[1]; return port && server.stdout.includes('ready') })
  return [server, port]
}

export default async ({ sandbox, server }) => {
  await step('getHost', 'ping server in running sandbox, also by WebSocket', async () => {
    const [command, port] = await start(sandbox, server())
    const headers = headersOf(sandbox, port)
    assert.deepEqual(await get(headers), [200, 'hello\n'])
    assert.equal(await echo(headers), 'through the gateway')
    await assert.rejects(echo({ Host: headers.Host }), /401/) // the port is not public
    assert.equal((await get({ Host: headers.Host }))[0], 401)
    await command.kill()
    assert.equal((await get(headers))[0], 502)
  })
}

export { get }
