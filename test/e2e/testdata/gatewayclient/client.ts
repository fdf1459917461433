// Calls every operation of a gateway by a client that is generated from its document:
//
//	node client.js URL TOKEN TOKEN-OF-ANOTHER-TENANT
import assert from "node:assert/strict";
import { readFileSync } from "node:fs";
import createClient from "openapi-fetch";
import type { components, paths } from "./api.js";
import { Document } from "./check.js";
import { Terminal } from "./terminal.js";

const [url, token, strange] = process.argv.slice(2) as [string, string, string];
const doc = new Document(readFileSync("openapi.json", "utf8"));
const served = await fetch(`${url}/openapi.json`);
assert.deepEqual(await served.json(), JSON.parse(readFileSync("openapi.json", "utf8")), "the gateway serves another document");

function clientOf(token: string) {
  const client = createClient<paths>({ baseUrl: url, headers: { Authorization: `Bearer ${token}` } });
  client.use(doc.middleware());
  return client;
}
const client = clientOf(token);
const stranger = clientOf(strange);

/** Returns the data of a call that must succeed with a status. */
async function want<T>(status: number, call: Promise<{ data?: T; error?: unknown; response: Response }>): Promise<T> {
  const { data, error, response } = await call;
  assert.equal(response.status, status, `${response.url}: ${JSON.stringify(error)}`);
  return data as T;
}

/** Makes a call that must fail with a status and class. */
async function refused(status: number, kind: string, call: Promise<{ error?: unknown; response: Response }>) {
  const { error, response } = await call;
  assert.equal(response.status, status, `${response.url}: ${JSON.stringify(error)}`);
  assert.equal((error as components["schemas"]["Problem"]).class, kind, response.url);
}

/** Reads text as it comes. */
async function* textOf(stream: ReadableStream<Uint8Array> | null): AsyncGenerator<string> {
  const decoder = new TextDecoder("utf-8", { fatal: true });
  for await (const part of stream as unknown as AsyncIterable<Uint8Array>) yield decoder.decode(part, { stream: true });
}

/** Reads JSON lines as they come. */
async function* linesOf<T>(stream: ReadableStream<Uint8Array> | null): AsyncGenerator<T> {
  let text = "";
  for await (const part of textOf(stream)) {
    text += part;
    const lines = text.split("\n");
    text = lines.pop()!;
    for (const line of lines) yield JSON.parse(line) as T;
  }
  assert.equal(text, "", "the last line has no end");
}

async function all<T>(items: AsyncIterable<T>): Promise<T[]> {
  const list: T[] = [];
  for await (const item of items) list.push(item);
  return list;
}

type OutputLine = components["schemas"]["OutputLine"];

const bytes = { bodySerializer: (body?: Blob) => body, headers: { "Content-Type": "application/octet-stream" } };
const id = "job-1";
const path = { id };

const body = {
  id, keep: true, lifetime_seconds: 1800, env: ["GREETING=hello"], labels: { job: "17" },
  idle_seconds: 900, idle: "calls" as const, auto_pause: true,
  cpu: "200m", memory: "256Mi", storage: "512Mi", public_ports: [8001],
};

async function callers() {
  assert.equal((await want(200, client.GET("/api/v1/whoami"))).tenant, "acme");
  assert.equal((await want(200, stranger.GET("/api/v1/whoami"))).tenant, "other");
}

async function lifeBegins() {
  for (const more of [{ image: "none.example/x" }, { pool: "none" }, { volumes: [{ name: "none", mount: "/x" }] }, { cpu: "4" }]) {
    await refused(403, "not_allowed", client.POST("/api/v1/sandboxes", { body: { ...body, ...more } }));
  }
  const { idle_seconds, ...ends } = body;
  await refused(422, "invalid", client.POST("/api/v1/sandboxes", { body: ends }));
  const made = await want(201, client.POST("/api/v1/sandboxes", { body }));
  assert.deepEqual([made.id, made.state], [id, "running"]);
  await want(200, client.POST("/api/v1/sandboxes", { body }));
  await refused(422, "git", client.POST("/api/v1/sandboxes", { body: { ...body, git: { url: "/none", ref: "main" } } }));
  const known = await want(200, client.GET("/api/v1/sandboxes/{id}", { params: { path } }));
  assert.deepEqual([known.auto_pause, known.labels, known.public_ports], [true, { job: "17" }, [8001]]);
  const list = await want(200, client.GET("/api/v1/sandboxes", { params: { query: { limit: 10, state: "running", label: ["job=17"] } } }));
  assert.deepEqual(list.sandboxes.map((s) => s.id), [id]);
  assert.deepEqual((await want(200, stranger.GET("/api/v1/sandboxes"))).sandboxes, []);
}

async function files() {
  const files = "/api/v1/sandboxes/{id}/files";
  const at = (path: string) => ({ params: { path: { id }, query: { path } } });
  const content = new Blob(["one\ntwo\n", new Uint8Array([0, 255])]);
  await want(201, client.PUT(files, { params: { path, query: { path: "d/a b", parents: true } }, body: content, ...bytes }));
  const read = await want(200, client.GET(files, { ...at("d/a b"), parseAs: "arrayBuffer" }));
  assert.deepEqual(new Uint8Array(read), new Uint8Array(await content.arrayBuffer()));
  const part = await client.GET(files, { params: { path, query: { path: "d/a b" }, header: { Range: "bytes=4-6" } }, parseAs: "text" });
  assert.deepEqual([part.response.status, part.data], [206, "two"]);
  const head = await client.HEAD(files, at("d/a b"));
  assert.deepEqual([head.response.status, head.response.headers.get("content-length")], [200, "10"]);
  assert.equal((await client.HEAD(files, at("none"))).response.status, 404);
  const etag = head.response.headers.get("etag")!;
  const unchanged = await client.GET(files, { params: { path, query: { path: "d/a b" }, header: { "If-None-Match": etag } } });
  assert.equal(unchanged.response.status, 304);
  const change = { params: { path, query: { path: "d/a b" }, header: { "If-Match": etag } }, body: new Blob(["one\ntwo\n"]), ...bytes };
  await want(200, client.PUT(files, change));
  await refused(412, "changed", client.PUT(files, change));
  await refused(404, "not_exist", client.GET(files, at("none")));
  await refused(409, "is_directory", client.GET(files, at("d")));
  const beyond = { params: { path, query: { path: "d/a b" }, header: { Range: "bytes=100-" } } };
  await refused(416, "invalid", client.GET(files, beyond));

  const stat = await want(200, client.GET(`${files}/stat`, at("d/a b")));
  assert.deepEqual([stat.type, stat.size, stat.path], ["file", 8, "d/a b"]);
  await want(204, client.POST(`${files}/mkdir`, { params: { path }, body: { path: "e", mode: "0750" } }));
  await refused(409, "exist", client.POST(`${files}/mkdir`, { params: { path }, body: { path: "e" } }));
  await want(204, client.POST(`${files}/move`, { params: { path }, body: { from: "d/a b", to: "e/c" } }));
  await refused(404, "not_exist", client.POST(`${files}/move`, { params: { path }, body: { from: "d/a b", to: "e/c" } }));
  const edits = [{ old: "two", new: "three" }];
  const edit = await want(200, client.POST(`${files}/edit`, { params: { path }, body: { path: "e/c", edits } }));
  assert.match(edit.diff!, /^\+three$/m);
  await refused(409, "edit", client.POST(`${files}/edit`, { params: { path }, body: { path: "e/c", edits } }));

  await want(200, client.POST("/api/v1/sandboxes/{id}/exec", { params: { path }, body: { script: String.raw`echo x >e/$(printf '\377')` } }));
  const list = await want(200, client.GET(`${files}/list`, at("e")));
  assert.deepEqual(list.entries.map((e) => e.path ?? atob(e.path_base64!)).sort(), ["e/c", "e/\xff"]);
  const raw = await want(200, client.GET(files, { ...at(""), querySerializer: () => "path=e/%FF", parseAs: "text" }));
  assert.equal(raw, "x\n");
  await refused(409, "not_empty", client.DELETE(files, at("e")));
}

async function trees() {
  const tree = "/api/v1/sandboxes/{id}/tree";
  const at = (path: string) => ({ params: { path: { id }, query: { path } } });
  const tar = await want(200, client.GET(tree, { ...at("e"), parseAs: "blob" }));
  const count = await want(200, client.PUT(tree, { ...at("copy"), body: tar, ...bytes }));
  assert.equal(count.bytes, 12);
  await refused(404, "not_exist", client.GET(tree, at("none")));
  await refused(422, "archive", client.PUT(tree, { ...at("copy"), body: new Blob(["x"]), ...bytes }));
  const query = { path: "copy", recursive: true };
  await want(204, client.DELETE("/api/v1/sandboxes/{id}/files", { params: { path, query } }));
}

async function checkpoints() {
  const list = "/api/v1/sandboxes/{id}/checkpoints";
  const made = await want(200, client.POST(list, { params: { path }, body: { name: "first", exclude: ["*.log"] } }));
  const one = { params: { path: { id, checkpoint: made.id } } };
  await want(200, client.POST("/api/v1/sandboxes/{id}/exec", { params: { path }, body: { script: "echo x >e/c; echo x >f" } }));
  const differs = await want(200, client.GET(`${list}/{checkpoint}/diff`, { ...one, parseAs: "stream" }));
  const lines = await all(linesOf<components["schemas"]["DiffLine"]>(differs));
  assert.deepEqual(lines.filter((l) => !l.directory).map((l) => [l.path ?? l.type, l.how]), [["e/c", "modified"], ["f", "added"], ["end", undefined]]);
  const restored = await want(200, client.POST(`${list}/{checkpoint}/restore`, { ...one, body: {} }));
  assert.deepEqual(restored.kept, []);
  assert.equal(await want(200, client.GET("/api/v1/sandboxes/{id}/files", { params: { path, query: { path: "e/c" } }, parseAs: "text" })), "one\nthree\n");
  const known = await want(200, client.GET(list, { params: { path } }));
  assert.deepEqual(known.checkpoints.map((c) => c.id), [made.id, restored.before.id]);
  const file = await want(200, client.GET(`${list}/{checkpoint}/export`, { ...one, parseAs: "blob" }));
  const from = { sandbox: id, checkpoint: made.id };
  await want(201, client.POST("/api/v1/sandboxes", { body: { id: "fork-1", from } }));
  const fork = { id: "fork-1" };
  assert.equal(await want(200, client.GET("/api/v1/sandboxes/{id}/files", { params: { path: fork, query: { path: "e/c" } }, parseAs: "text" })), "one\nthree\n");
  await refused(409, "exist", client.POST("/api/v1/sandboxes", { body: { id: "fork-1", from } }));
  await refused(404, "no_sandbox", stranger.POST("/api/v1/sandboxes", { body: { id: "fork-2", from } }));
  await want(204, client.DELETE("/api/v1/sandboxes/{id}", { params: { path: fork } }));
  await want(204, client.DELETE(`${list}/{checkpoint}`, one));
  await refused(404, "not_exist", client.DELETE(`${list}/{checkpoint}`, one));
  await refused(404, "not_exist", client.GET(`${list}/{checkpoint}/export`, { ...one, parseAs: "blob" }));
  const again = await want(200, client.POST(`${list}/import`, { params: { path }, body: file, ...bytes }));
  assert.deepEqual([again.id, again.name], [made.id, "first"]);
  await refused(422, "invalid", client.POST(`${list}/import`, { params: { path }, body: new Blob(["x"]), ...bytes }));
}

async function searches() {
  const query = { pattern: "**/c", sort: "name" as const };
  const found = await want(200, client.GET("/api/v1/sandboxes/{id}/glob", { params: { path, query }, parseAs: "stream" }));
  assert.deepEqual((await all(linesOf<components["schemas"]["GlobLine"]>(found))).map((l) => l.path ?? l.type), ["e/c", "end"]);
  const grep = "/api/v1/sandboxes/{id}/grep";
  const matches = await want(200, client.POST(grep, { params: { path }, body: { pattern: "th.ee", sort: true }, parseAs: "stream" }));
  const [match, end] = await all(linesOf<components["schemas"]["GrepLine"]>(matches));
  assert.deepEqual([match!.path, match!.line, match!.text, end!.type, end!.matches], ["e/c", 2, "three", "end", 1]);
  await refused(422, "pattern", client.POST(grep, { params: { path }, body: { pattern: "(" } }));
  await refused(422, "pattern", client.GET("/api/v1/sandboxes/{id}/glob", { params: { path, query: { pattern: "[" } } }));
}

async function watches() {
  const leave = new AbortController();
  const params = { path, query: { path: ".", recursive: true } };
  const events = await want(200, client.GET("/api/v1/sandboxes/{id}/watch", { params, parseAs: "stream", signal: leave.signal }));
  let text = "";
  const follow = async () => {
    for await (const part of textOf(events)) {
      const ready = /^event: ready$/m;
      if (!ready.test(text) && ready.test(text + part)) {
        await want(204, client.POST("/api/v1/sandboxes/{id}/files/mkdir", { params: { path }, body: { path: "new" } }));
      }
      text += part;
      if (/^event: create\ndata: .*new/m.test(text)) leave.abort();
    }
  };
  await assert.rejects(follow, { name: "AbortError" });
  await refused(404, "not_exist", client.GET("/api/v1/sandboxes/{id}/watch", { params: { path, query: { path: "none" } } }));
}

async function commands() {
  const exec = "/api/v1/sandboxes/{id}/exec";
  const ended = await want(200, client.POST(exec, { params: { path }, body: { script: 'echo "$GREETING"; cat; exit 3', stdin: btoa("there") } }));
  assert.ok("code" in ended);
  assert.deepEqual([ended.reason, ended.code, ended.stdout], ["exited", 3, "hello\nthere"]);
  await refused(404, "not_exist", client.POST(exec, { params: { path }, body: { args: ["none"] } }));

  const headers = { Accept: "application/jsonl" };
  const body = { script: "echo begun; exec sleep 1000" };
  let execID = "";
  for await (const line of linesOf<OutputLine>(await want(200, client.POST(exec, { params: { path }, body, headers, parseAs: "stream" })))) {
    execID ||= line.exec_id!;
    const target = { params: { path: { id, exec_id: execID } } };
    if (line.type === "stdout") {
      assert.equal(line.data, "begun\n");
      const now = await want(200, client.GET("/api/v1/sandboxes/{id}/processes/{exec_id}/output", { ...target, parseAs: "stream" }));
      assert.deepEqual((await all(linesOf<OutputLine>(now))).map((l) => l.type), ["stdout", "running"]);
      await want(204, client.POST("/api/v1/sandboxes/{id}/processes/{exec_id}/signal", { ...target, body: { signal: 15 } }));
    }
    if (line.type === "exit") assert.deepEqual([line.exit!.reason, line.exit!.signal], ["signalled", 15]);
  }
  const ran = { id, exec_id: execID };
  const params = { path: ran, query: { stdout_offset: 2, follow: true } };
  const output = await want(200, client.GET("/api/v1/sandboxes/{id}/processes/{exec_id}/output", { params, parseAs: "stream" }));
  assert.deepEqual((await all(linesOf<OutputLine>(output))).map((l) => l.data ?? l.type), ["gun\n", "exit"]);
  await refused(409, "process_done", client.POST("/api/v1/sandboxes/{id}/processes/{exec_id}/signal", { params: { path: ran }, body: { signal: 15 } }));
  const known = await want(200, client.GET("/api/v1/sandboxes/{id}/processes", { params: { path } }));
  assert.ok(known.processes.some((p) => p.exec_id === execID && p.exit?.signal === 15));
}

async function input() {
  const exec = { args: ["cat"], detach: true, open_stdin: true };
  const started = await want(202, client.POST("/api/v1/sandboxes/{id}/exec", { params: { path }, body: exec }));
  const ran = { id, exec_id: (started as components["schemas"]["Started"]).exec_id };
  const stdin = "/api/v1/sandboxes/{id}/processes/{exec_id}/stdin";
  const part = (text: string, query: { offset: number; end?: boolean }) => client.PUT(stdin, { params: { path: ran, query }, body: new Blob([text]), ...bytes });
  assert.deepEqual(await want(200, client.GET(stdin, { params: { path: ran } })), { offset: 0, open: true });
  for (let times = 0; times < 2; times++) assert.deepEqual(await want(200, part("hello", { offset: 0 })), { offset: 5, open: true });
  await refused(409, "stdin_gap", part("x", { offset: 7 }));
  assert.deepEqual(await want(200, part(" there", { offset: 5, end: true })), { offset: 11, open: false });
  await refused(409, "stdin_closed", part("x", { offset: 11 }));
  const params = { path: ran, query: { follow: true } };
  const output = await all(linesOf<OutputLine>(await want(200, client.GET("/api/v1/sandboxes/{id}/processes/{exec_id}/output", { params, parseAs: "stream" }))));
  assert.equal(output.map((l) => l.data ?? l.exit!.reason).join(""), "hello thereexited");
  await refused(404, "not_exist", client.GET(stdin, { params: { path: { id, exec_id: "none" } } }));
}

async function terminals() {
  await refused(426, "invalid", client.GET("/api/v1/sandboxes/{id}/terminal", { params: { path } }));
  const script = `trap 'exit 4' TERM; stty -echo; stty size; echo ready; read -r line
until [ "$(stty size)" = "31 101" ]; do sleep 0.01; done
echo "$NAME got $line"; while :; do sleep 0.1; done`;
  const terminal = new Terminal(doc, url, token, id, { script, env: ["NAME=job"], dir: "e", cols: 100, rows: 30 });
  await terminal.until(() => terminal.output.includes("ready\r\n"));
  terminal.ask({ type: "resize", cols: 101, rows: 31 });
  terminal.type("\u00e9\n");
  await terminal.until(() => terminal.output.includes("got") && terminal.events.some((e) => e.type === "ack" && e.stdin_offset === 3));
  terminal.ask({ type: "signal", signal: 15 });
  const end = await terminal.end(1000);
  assert.deepEqual([end.type, end.exit!.code], ["exit", 4]);
  const [said] = terminal.output.split("Terminated"); // as the shell says of sleep, which got the signal, too
  assert.equal(said, "30 100\r\nready\r\njob got \u00e9\r\n");

  const again = new Terminal(doc, url, token, id, { exec_id: terminal.events[0]!.exec_id!, stdout_offset: 8 });
  await again.end(1000);
  assert.equal(again.output, terminal.output.slice(8));

  const wrong = new Terminal(doc, url, token, id, { args: ["cat"] });
  await wrong.until(() => wrong.events.length > 0);
  wrong.send("{");
  assert.equal((await wrong.end(4422)).problem!.class, "invalid");
}

async function stats() {
  const used = await want(200, client.GET("/api/v1/sandboxes/{id}/stats", { params: { path } }));
  assert.ok(Math.abs(Date.parse(used.time) - Date.now()) < 3_600_000);
}

async function ports() {
  const { ports } = await want(200, client.GET("/api/v1/sandboxes/{id}/ports", { params: { path } }));
  assert.deepEqual(ports, []);
}

async function links() {
  const link = await want(200, client.POST("/api/v1/sandboxes/{id}/ports/{port}/link", { params: { path: { id, port: 8000 } }, body: {} }));
  assert.equal(new URL(link.url).hostname, "8000-job-1--acme.sandboxes.test");
}

async function lifeGoesOn() {
  const extended = await want(200, client.POST("/api/v1/sandboxes/{id}/extend", { params: { path }, body: { additional_seconds: 600 } }));
  assert.ok(new Date(extended.expires_at) > new Date());
  const at = new Date(Date.now() + 900_000).toISOString();
  const sooner = await want(200, client.PUT("/api/v1/sandboxes/{id}/expires", { params: { path }, body: { at } }));
  assert.ok(new Date(sooner.expires_at) < new Date(extended.expires_at));
  await want(204, client.POST("/api/v1/sandboxes/{id}/pause", { params: { path } }));
  const paused = await want(200, client.GET("/api/v1/sandboxes/{id}", { params: { path } }));
  assert.equal(paused.state, "paused");
  await want(200, client.POST("/api/v1/sandboxes/{id}/resume", { params: { path } }));
  const kept = await want(200, client.GET("/api/v1/sandboxes/{id}/files", { params: { path, query: { path: "e/c" } }, parseAs: "text" }));
  assert.equal(kept, "one\nthree\n");
}

async function records() {
  const events = await want(200, client.GET("/api/v1/sandboxes/{id}/events", { params: { path } }));
  assert.ok(events.events.some((e) => e.reason === "Started"), JSON.stringify(events));
  const calls = await want(200, client.GET("/api/v1/sandboxes/{id}/audit", { params: { path, query: { limit: 1000 } } }));
  assert.ok(calls.records.some((r) => r.operation === "edit-file" && r.status === 200), JSON.stringify(calls));
  const tries = await want(200, client.GET("/api/v1/sandboxes/{id}/egress/decisions", { params: { path } }));
  assert.deepEqual([tries.decisions, tries.way_out], [[], "none"]);
}

/** Makes of every operation calls that must fail, from what the document says of it. */
async function wrongCalls() {
  const call = client.request as (method: string, path: string, init: object) => Promise<{ response: Response; error?: unknown }>;
  const foreign = stranger.request as typeof call;
  const nobody = clientOf("wrong").request as typeof call;
  for (const { method, path, parameters = [], requestBody } of doc.operations) {
    const body = requestBody && { body: {} };
    const query = Object.fromEntries(parameters.filter((p) => p.in === "query" && p.required).map((p) => [p.name, "x"]));
    const expect = async (status: number, send: typeof call, init: object) => {
      const { response } = await send(method, path, { ...body, ...init });
      assert.equal(response.status, status, `${method} ${path} ${JSON.stringify(init)}`);
    };
    const params = { path: { id, exec_id: "x", port: 80, checkpoint: "0".repeat(64) }, query };
    await expect(401, nobody, { params });
    await expect(422, call, { params: { ...params, query: { ...query, unknown: "x" } } });
    if (Object.keys(query).length > 0) await expect(422, call, { params: { path: params.path } });
    if (path.includes("{id}")) await expect(422, call, { params: { ...params, path: { ...params.path, id: "acme.job-1" } } });
    if (requestBody?.content["application/json"]) {
      for (const wrong of [[], null, 1, { unknown: 1 }]) await expect(422, call, { params, body: wrong, bodySerializer: JSON.stringify });
      await expect(400, call, { params, body: "{", bodySerializer: String });
      await expect(415, call, { params, body: "{}", headers: { "Content-Type": "text/plain" } });
    } else if (path.includes("{id}")) {
      const { response } = await foreign(method, path, { ...body, params });
      assert.ok([404, 422].includes(response.status), `${method} ${path} of another tenant: ${response.status}`);
    }
  }
}

await callers();
await lifeBegins();
await files();
await trees();
await checkpoints();
await searches();
await watches();
await commands();
await input();
await terminals();
await ports();
await links();
await stats();
await records();
await wrongCalls();
await lifeGoesOn();
await want(204, client.DELETE("/api/v1/sandboxes/{id}", { params: { path } }));
await refused(404, "no_sandbox", client.GET("/api/v1/sandboxes/{id}", { params: { path } }));
assert.deepEqual(await doc.findings(), []);
