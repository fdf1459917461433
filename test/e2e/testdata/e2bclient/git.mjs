// Git, which the SDK runs as commands.
import assert from 'node:assert/strict'
import { start } from './servers.mjs'
import { step, throwsOf } from './walk.mjs'

export default async ({ sdk, sandbox, server }) => {
  const { git, files } = sandbox
  await step('git', 'init, config, add, commit, branches, status, remote, push, pull, reset, restore', async () => {
    const config = { scope: 'local', path: 'repo' }
    await git.init('repo', { initialBranch: 'main' })
    await git.configureUser('Somebody', 'somebody@example.com', config)
    assert.equal(await git.getConfig('user.name', config), 'Somebody')
    await files.write('repo/README.md', 'hello\n')
    assert.deepEqual((await git.status('repo')).fileStatus.map(f => f.name), ['README.md'])
    await git.add('repo')
    await git.commit('repo', 'Begin')
    await git.createBranch('repo', 'feature')
    assert.deepEqual((await git.branches('repo')).branches.sort(), ['feature', 'main'])
    await git.checkoutBranch('repo', 'main')
    await git.deleteBranch('repo', 'feature', { force: true })
    await throwsOf(git.pull('repo'), sdk.GitUpstreamError)
    await git.init('bare.git', { bare: true })
    await git.remoteAdd('repo', 'origin', '../bare.git')
    assert.equal(await git.remoteGet('repo', 'origin'), '../bare.git')
    await git.push('repo', { remote: 'origin', branch: 'main', setUpstream: true })
    await git.pull('repo')
    await git.clone('bare.git', { path: 'clone', branch: 'main' })
    assert.equal(await files.read('clone/README.md'), 'hello\n')
    await files.write('repo/README.md', 'changed\n')
    await git.restore('repo', { paths: ['README.md'] })
    await git.reset('repo', { mode: 'hard' })
    assert.equal((await git.status('repo')).isClean, true)
    await throwsOf(git.clone('none.git', { path: 'other' }), sdk.CommandExitError)
  })
  await step('git', 'clone of what needs credentials', async () => {
    const [command, port] = await start(sandbox, server())
    await throwsOf(git.clone(`http://127.0.0.1:${port}/private.git`, { path: 'private' }), sdk.GitAuthError)
    await command.kill()
  })
}
