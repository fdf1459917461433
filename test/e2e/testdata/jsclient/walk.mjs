// The client for JavaScript, as its package has it, works in a pod: files, searches, commands, and
// a process with standard input and output.
import assert from "node:assert/strict";
import { once } from "node:events";
import { text } from "node:stream/consumers";
import { Gateway, isProblem } from "podagent";
import { SandboxProcess } from "podagent/claude";
import { SandboxBackend } from "podagent/deepagents";

const gateway = new Gateway();
const box = await SandboxBackend.create({ gateway, sandbox: { labels: { walk: "js" } }, initialFiles: { "src/main.py": "print('one')\n" } });
const root = box.sandbox.workdir;
try {
  assert.deepEqual(await box.edit(`${root}/src/main.py`, "one", "two"), { path: `${root}/src/main.py`, filesUpdate: null, occurrences: 1 });
  assert.equal((await box.read(`${root}/src/main.py`)).content, "print('two')");
  const big = new Uint8Array(20 << 20).map((_, i) => i >> 10);
  assert.deepEqual(await box.uploadFiles([[`${root}/big`, big], ["/etc/none", big.subarray(0, 1)]]), [
    { path: `${root}/big`, error: null },
    { path: "/etc/none", error: "permission_denied" },
  ]);
  assert.deepEqual((await box.downloadFiles([`${root}/big`]))[0].content, big);
  assert.deepEqual((await box.grep("two", "/", "main.py")).matches, [{ path: `${root}/src/main.py`, line: 1, text: "print('two')" }]);
  assert.deepEqual((await box.glob("**/main.py", "/")).files.map(({ path }) => `/${path}`), [`${root}/src/main.py`]);
  assert.deepEqual((await box.ls(root)).files.map(({ path }) => path), [`${root}/big`, `${root}/src/`]);
  assert.deepEqual(await box.execute("pwd; ls src >&2; exit 3"), { output: `${root}\nmain.py\n`, exitCode: 3, truncated: false });
  assert.match((await box.execute("sleep 1000", { timeout: 0.2 })).output, /ended after 0.2 s/);
  assert.ok((await box.delete(`${root}/big`)).error === undefined);

  const child = new SandboxProcess(box.sandbox, { args: ["bash", "-c", "cat; echo done; kill -TERM $$"] });
  const output = text(child.stdout);
  child.stdin.end("in");
  assert.deepEqual(await once(child, "exit"), [null, "SIGTERM"]);
  assert.equal(await output, "indone\n");
} finally {
  await box.close();
}
await assert.rejects(gateway.attach(box.id), (error) => isProblem(error, "no_sandbox"));
