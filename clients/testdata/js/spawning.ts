// Processes in a sandbox with their standard input and output here, as the Claude Agent SDK starts them.
import assert from "node:assert/strict";
import { once } from "node:events";
import { createInterface } from "node:readline";
import { text } from "node:stream/consumers";
import { after, before, describe, it } from "node:test";
import { query, type SpawnedProcess, type SpawnOptions } from "@anthropic-ai/claude-agent-sdk";
import { Gateway, isProblem, type Sandbox } from "podagent";
import { SandboxProcess, spawnClaudeCode } from "podagent/claude";
import { saw } from "./saw.js";

// A program that answers lines, and ends as it is told.
const talker = `
process.on("SIGTERM", () => { process.stdout.write("terminated\\n"); process.exit(7); });
console.log(JSON.stringify({ dir: process.cwd(), args: process.argv.slice(2), env: process.env }));
for await (const line of (await import("node:readline")).createInterface({ input: process.stdin })) {
  if (line === "exit") process.exit(5);
  console.log("got " + line);
}
console.log("end of input");
`;

// A stand-in for Claude Code: it speaks its stream of JSON, and answers what it was asked.
const claude = `#!/usr/bin/env node
const say = (message) => console.log(JSON.stringify({ session_id: "11111111-2222-4333-8444-555555555555", uuid: crypto.randomUUID(), ...message }));
for await (const line of (await import("node:readline")).createInterface({ input: process.stdin })) {
  const message = JSON.parse(line);
  if (message.type === "control_request") {
    const response = { subtype: "success", request_id: message.request_id, response: { commands: [], models: [], account: {}, output_style: "default", available_output_styles: [] } };
    console.log(JSON.stringify({ type: "control_response", response }));
  }
  if (message.type === "user") {
    const asked = typeof message.message.content === "string" ? message.message.content : message.message.content[0].text;
    say({ type: "system", subtype: "init", cwd: process.cwd(), tools: [], mcp_servers: [], model: "scripted", permissionMode: "default", slash_commands: [], apiKeySource: "none", output_style: "default" });
    const said = asked + " in " + process.cwd() + " with " + (process.env.ANTHROPIC_BASE_URL ?? "nothing") + " and " + (process.env.SECRET_OF_THE_HOST ?? "no secret");
    say({ type: "assistant", parent_tool_use_id: null, message: { id: "m", type: "message", role: "assistant", model: "scripted", content: [{ type: "text", text: said }], stop_reason: "end_turn", stop_sequence: null, usage: { input_tokens: 1, output_tokens: 1 } } });
    say({ type: "result", subtype: "success", is_error: false, duration_ms: 1, duration_api_ms: 1, num_turns: 1, result: said, total_cost_usd: 0, usage: { input_tokens: 1, output_tokens: 1 }, modelUsage: {}, permission_denials: [] });
  }
}
`;

export function spawning(): void {
  describe("processes with standard input and output", { concurrency: true }, () => {
    let sandbox: Sandbox;
    const node = process.execPath;
    before(async () => {
      sandbox = await new Gateway().create();
      await sandbox.write("talker.mjs", talker);
      await sandbox.write("bin/claude", claude, { mode: "0755" });
    });
    after(() => sandbox.delete());

    const start = (args: string[], signal?: AbortSignal) => {
      const child = new SandboxProcess(sandbox, { args }, signal);
      child satisfies SpawnedProcess;
      return child;
    };
    const talk = (signal?: AbortSignal) => {
      const child = start([node, "talker.mjs", "a b", "$c"], signal);
      const lines = createInterface({ input: child.stdout })[Symbol.asyncIterator]();
      return { child, next: async () => (await lines.next()).value as string };
    };

    it("answer what they are asked, and end with their input", async () => {
      const { child, next } = talk();
      const { args, dir } = JSON.parse(await next());
      assert.deepEqual({ args, dir }, { args: ["a b", "$c"], dir: sandbox.workdir });
      for (const word of ["one", "zwei ü", "x".repeat(100_000)]) {
        child.stdin.write(`${word}\n`);
        assert.equal(await next(), `got ${word}`);
      }
      assert.deepEqual([child.exitCode, child.signalCode, child.killed], [null, null, false]);
      child.stdin.end("last\n");
      assert.equal(await next(), "got last");
      assert.equal(await next(), "end of input");
      assert.deepEqual(await once(child, "exit"), [0, null]);
      assert.equal(await next(), undefined);
      assert.equal(child.exitCode, 0);
      assert.equal(child.kill("SIGKILL"), false);
      saw("claude-agent-sdk", "SpawnedProcess: stdin, stdout");
    });

    it("tell their exit code, and take no input after it", async () => {
      const { child } = talk();
      child.stdin.write("exit\n");
      assert.deepEqual(await once(child, "exit"), [5, null]);
      assert.equal(child.stdin.writable, false);
    });

    it("get signals, with what they started", async () => {
      const { child, next } = talk();
      await next();
      assert.equal(child.kill("SIGTERM"), true);
      assert.equal(child.killed, true);
      assert.equal(await next(), "terminated");
      assert.deepEqual(await once(child, "exit"), [7, null]);
      const hard = start(["bash", "-c", "sleep 1000 & echo $!; wait"]);
      const [pid] = (await once(hard.stdout, "data")) as [Buffer];
      hard.kill("SIGKILL");
      assert.deepEqual(await once(hard, "exit"), [null, "SIGKILL"]);
      assert.equal(hard.signalCode, "SIGKILL");
      const { code } = await sandbox.exec({ script: `while kill -0 ${String(pid).trim()} 2>/dev/null; do :; done` });
      assert.equal(code, 0);
      saw("claude-agent-sdk", "SpawnedProcess: kill, exitCode, signalCode");
    });

    it("get SIGTERM when they are aborted, before and after they run", async () => {
      const abort = new AbortController();
      const { child, next } = talk(abort.signal);
      await next();
      abort.abort();
      assert.deepEqual(await once(child, "exit"), [7, null]);
      const late = start(["sleep", "1000"], AbortSignal.abort());
      assert.deepEqual(await once(late, "exit"), [null, "SIGTERM"]);
      saw("claude-agent-sdk", "SpawnOptions: signal");
    });

    it("pass on much output as fast as it is read, and standard error beside it", async () => {
      const child = start(["bash", "-c", "echo warning >&2; seq 300000"]);
      const [out, err] = await Promise.all([text(child.stdout), text(child.stderr), once(child, "exit")]);
      assert.equal(out, `${Array.from({ length: 300_000 }, (_, i) => i + 1).join("\n")}\n`);
      assert.equal(err, "warning\n");
    });

    it("fail like Node's own if there is no such program", async () => {
      const child = start(["/nowhere/claude"]);
      const [error] = (await once(child, "error")) as [NodeJS.ErrnoException];
      assert.equal(error.code, "ENOENT");
      assert.equal(error.syscall, "spawn /nowhere/claude");
    });

    it("do not fail like Node's own when it is their output that cannot be read", async () => {
      const gone = { status: 404, title: "Not Found", detail: "no such process", class: "not_exist" };
      const gateway = new Gateway({
        fetch: (url, init) => new URL(url as string).pathname.endsWith("/output")
          ? Promise.resolve(Response.json(gone, { status: 404, headers: { "content-type": "application/problem+json" } })) : fetch(url, init),
      });
      const child = new SandboxProcess(await gateway.attach(sandbox.id), { args: ["true"] });
      const [error] = (await once(child, "error")) as [NodeJS.ErrnoException];
      assert.equal(error.code, undefined);
      assert.ok(isProblem(error, "not_exist"));
    });

    it("get a signal that was sent while no gateway answered", async () => {
      let away = 3;
      const gateway = new Gateway({
        fetch: (url, init) => new URL(url as string).pathname.endsWith("/signal") && away-- > 0
          ? Promise.reject(new TypeError("fetch failed")) : fetch(url, init),
      });
      const child = new SandboxProcess(await gateway.attach(sandbox.id), { args: ["sleep", "1000"] });
      child.kill("SIGTERM");
      assert.deepEqual(await once(child, "exit"), [null, "SIGTERM"]);
      assert.equal(away, -1);
    });

    it("are left when they cannot be told to end", async () => {
      let left: AbortSignal | null | undefined;
      const gateway = new Gateway({
        patience: 0.3,
        fetch: async (url, init) => {
          const { pathname } = new URL(url as string);
          if (pathname.endsWith("/output")) left = init?.signal;
          return pathname.endsWith("/signal") ? new Response("no gateway", { status: 502 }) : fetch(url, init);
        },
      });
      const child = new SandboxProcess(await gateway.attach(sandbox.id), { args: ["bash", "-c", "echo ready; exec sleep 1000"] });
      await once(child.stdout, "readable");
      assert.equal(child.kill("SIGKILL"), true);
      await once(child, "error");
      assert.equal(left?.aborted, true);
      assert.equal(await text(child.stdout), "ready\n");
    });

    it("run Claude Code for the Agent SDK", async () => {
      let asked: SpawnOptions | undefined;
      const spawn = spawnClaudeCode(sandbox);
      const run = query({
        prompt: "hello",
        options: {
          pathToClaudeCodeExecutable: `${sandbox.workdir}/bin/claude`,
          env: { PATH: process.env["PATH"], ANTHROPIC_BASE_URL: "https://llm.example.com", SECRET_OF_THE_HOST: "s3cret" },
          spawnClaudeCodeProcess: (options) => spawn((asked = options)),
        },
      });
      const results: string[] = [];
      for await (const message of run) if (message.type === "result" && message.subtype === "success") results.push(message.result);
      assert.deepEqual(results, [`hello in ${sandbox.workdir} with https://llm.example.com and no secret`]);
      assert.equal(asked!.command, `${sandbox.workdir}/bin/claude`);
      saw("claude-agent-sdk", "spawnClaudeCodeProcess", "query");
    });
  });
}
