// What a caller sees of a gateway that refuses, is busy, or is not there.
import assert from "node:assert/strict";
import { once } from "node:events";
import { createServer, type IncomingMessage, type ServerResponse } from "node:http";
import type { AddressInfo } from "node:net";
import { after, describe, it } from "node:test";
import { CutError, Gateway, isProblem, ProblemError, UnreachableError } from "podagent";
import { SandboxBackend } from "podagent/deepagents";

type Answer = [status: number, body: unknown, headers?: { [name: string]: string }];

/** Serves answers in place of a gateway, and notes what was asked. After the last it repeats itself. */
class Script {
  readonly asked: string[] = [];
  readonly #answers: Answer[];
  readonly #server = createServer((request, response) => this.#answer(request, response));
  readonly #port: number;

  private constructor(answers: Answer[], port: number) {
    this.#answers = answers;
    this.#port = port;
  }

  static async serving(answers: Answer[], port = 0): Promise<Script> {
    const script = new Script(answers, port);
    script.#server.listen(script.#port, "127.0.0.1");
    await once(script.#server, "listening");
    return script;
  }

  get port(): number {
    return (this.#server.address() as AddressInfo).port;
  }

  async close(): Promise<void> {
    this.#server.close();
    this.#server.closeAllConnections();
    await once(this.#server, "close");
  }

  #answer(request: IncomingMessage, response: ServerResponse): void {
    const [status, body, headers] = this.#answers[Math.min(this.asked.length, this.#answers.length - 1)]!;
    this.asked.push(`${request.method} ${request.url}`);
    request.resume();
    const type = status >= 400 ? "application/problem+json" : "application/json";
    response.writeHead(status, { "content-type": type, ...headers });
    if (headers?.["content-length"]) { // of more than there is
      response.write(body, () => request.socket.destroy());
      return;
    }
    response.end(typeof body === "string" ? body : JSON.stringify(body));
  }
}

const problem = (status: number, name: string, more = {}): Answer => [status, { status, title: "t", detail: "why", class: name, ...more }];
const me: Answer = [200, { tenant: "acme" }];
const made: Answer = [201, { id: "job-17", state: "running", workdir: "/work" }];

export function errors(): void {
  describe("errors", { concurrency: true }, () => {
    const scripts: Script[] = [];
    after(() => Promise.all(scripts.map((script) => script.close())));
    const at = async (answers: Answer[], patience = 20) => {
      const script = await Script.serving(answers);
      scripts.push(script);
      return { script, gateway: new Gateway({ url: `http://127.0.0.1:${script.port}`, token: "t", patience }) };
    };

    it("of a gateway are typed", async () => {
      const gateway = new Gateway();
      const sandbox = await gateway.create();
      const classOf = async (act: Promise<unknown>) => {
        const error = await act.then(() => assert.fail("it succeeded"), (e: unknown) => e);
        assert.ok(error instanceof ProblemError, String(error));
        return `${error.status} ${error.class}`;
      };
      assert.equal(await classOf(new Gateway({ token: "wrong" }).whoami()), "401 unauthenticated");
      assert.equal(await classOf(gateway.attach("no-such-sandbox")), "404 no_sandbox");
      assert.equal(await classOf(sandbox.read("none")), "404 not_exist");
      assert.equal(await classOf(sandbox.read(".")), "409 is_directory");
      assert.equal(await classOf(sandbox.grep("(").all()), "422 pattern");
      assert.equal(await classOf(sandbox.exec({})), "422 invalid");
      await sandbox.write("file", "1");
      assert.equal(await classOf(sandbox.write("file", "2", { ifNoneMatch: "*" })), "409 exist");
      assert.equal(await classOf(sandbox.write("file", "2", { ifMatch: '"other"' })), "412 changed");
      await sandbox.write("file", "2", { ifMatch: (await sandbox.stat("file")).etag! });
      assert.equal(await classOf(sandbox.exec({ args: ["/nowhere"] })), "404 not_exist");
      await assert.rejects(sandbox.edit("file", [{ old: "3", new: "4" }]), (error) => {
        assert.ok(isProblem(error, "changed", "edit"));
        assert.equal(error.class satisfies "changed" | "edit", "edit");
        return !isProblem(error, "changed") && isProblem(error);
      });
      await sandbox.delete();
    });

    it("with Retry-After are waited for, as far as the caller's patience goes", async () => {
      const busy = (status: number, name: string, seconds: string): Answer => [...problem(status, name).slice(0, 2), { "retry-after": seconds }] as unknown as Answer;
      const { script, gateway } = await at([busy(429, "rate", "0"), busy(503, "not_ready", "0"), made]);
      await gateway.create();
      assert.equal(script.asked.length, 3);
      const late = await at([busy(429, "quota_exceeded", "3600")]);
      await assert.rejects(late.gateway.create(), { class: "quota_exceeded", status: 429, retryAfter: 3600 });
      assert.equal(late.script.asked.length, 1);
    });

    it("of an ending gateway are repeated, where that does no harm", async () => {
      const reading = await at([problem(503, "unavailable"), me]);
      assert.deepEqual(await reading.gateway.whoami(), { tenant: "acme" });
      const ending: Answer = [...problem(503, "unavailable").slice(0, 2), { "retry-after": "0" }] as unknown as Answer;
      const acting = await at([made, ending, me]);
      const sandbox = await acting.gateway.create();
      await assert.rejects(sandbox.move("a", "b"), { class: "unavailable" });
      assert.equal(acting.script.asked.length, 2);
    });

    it("of a command that runs on at another gateway lead to its output", async () => {
      const lines = [{ type: "stdout", offset: 0, data: "all of it" }, { type: "exit", exit: { exec_id: "e-1", reason: "exited", code: 0 } }];
      const { script, gateway } = await at([made, problem(503, "unavailable", { exec_id: "e-1" }), [200, lines.map((line) => JSON.stringify(line)).join("\n") + "\n"]]);
      const { stdout, code } = await (await gateway.create()).exec({ script: "x" });
      assert.deepEqual({ stdout, code }, { stdout: "all of it", code: 0 });
      assert.match(script.asked[2]!, /^GET \/api\/v1\/sandboxes\/job-17\/processes\/e-1\/output\?.*follow=true/);
    });

    it("are none when a command is only silent for long", async () => {
      const silent = (code: string) => new TypeError("terminated", { cause: Object.assign(new Error("timeout"), { code }) });
      const begun = new TextEncoder().encode('{"type": "start", "exec_id": "e-1"}\n');
      const exit = JSON.stringify({ type: "exit", exit: { exec_id: "e-1", reason: "exited", code: 7 } });
      const answers = [
        async () => Response.json(made[1]),
        async () => new Response(new ReadableStream({ start: (body) => body.enqueue(begun), pull: (body) => body.error(silent("UND_ERR_BODY_TIMEOUT")) })),
        async () => Promise.reject(silent("UND_ERR_HEADERS_TIMEOUT")),
        async () => new Response(exit + "\n"),
      ];
      const gateway = new Gateway({ url: "http://gateway", token: "t", patience: 0, fetch: () => answers.shift()!() });
      assert.equal((await (await gateway.create()).exec({ script: "sleep 700" })).code, 7);
    });

    it("of a gateway that is closed say so, and calls go on once there is another", async () => {
      const { script } = await at([me]);
      const { port } = script;
      scripts.splice(scripts.indexOf(script), 1);
      await script.close();
      const url = `http://127.0.0.1:${port}`;
      await assert.rejects(new Gateway({ url, token: "t", patience: 0 }).whoami(), (error) => error instanceof UnreachableError && error.message.includes("ECONNREFUSED"));
      let tries = 0;
      const counting: typeof fetch = async (...args) => {
        if (++tries === 2) scripts.push(await Script.serving([me], port));
        return fetch(...args);
      };
      assert.deepEqual(await new Gateway({ url, token: () => "t", fetch: counting }).whoami(), { tenant: "acme" });
      assert.equal(tries, 2);
    });

    it("tell an answer that is cut off, or of no gateway", async () => {
      const cut = await at([made, [200, '{"type": "file", "path": "a"}\n{"type": "file"']]);
      await assert.rejects((await cut.gateway.create()).glob("*").all(), CutError);
      const other = await at([[404, "<html>", { "content-type": "text/html" }]], 0);
      await assert.rejects(other.gateway.whoami(), (error) => error instanceof UnreachableError && /no gateway: 404/.test(error.message));
    });

    it("are none when an answer is cut off that can be asked for again", async () => {
      const cut: Answer = [200, '{"tenant"', { "content-length": "1000" }];
      const { script, gateway } = await at([cut, cut, me]);
      assert.deepEqual(await gateway.whoami(), { tenant: "acme" });
      assert.equal(script.asked.length, 3);
      const reading = await at([made, cut, [200, "the file"]]);
      const sandbox = await reading.gateway.create();
      assert.equal(new TextDecoder().decode(await sandbox.read("a")), "the file");
      assert.equal(reading.script.asked.length, 3);
      const acting = await at([made, cut]);
      await assert.rejects((await acting.gateway.create()).edit("a", [{ old: "1", new: "2" }]), CutError);
      assert.equal(acting.script.asked.length, 2);
    });

    it("are thrown by the backend, if no file is the reason", async () => {
      const { gateway } = await at([made, problem(401, "unauthenticated")]);
      const backend = new SandboxBackend(await gateway.create());
      const calls = [backend.ls("/"), backend.read("a"), backend.write("a", ""), backend.edit("a", "b", "c"), backend.grep("a", "/"), backend.glob("a", "/"), backend.downloadFiles(["a"]), backend.uploadFiles([["a", new Uint8Array()]]), backend.execute("true")];
      for (const call of await Promise.allSettled(calls)) assert.ok(call.status === "rejected" && isProblem(call.reason, "unauthenticated"));
    });

    it("name what is missing", () => {
      assert.throws(() => new Gateway({ url: "", token: "t" }), /PODAGENT_GATEWAY/);
      assert.throws(() => new Gateway({ url: "http://x", token: "" }), /PODAGENT_GATEWAY_TOKEN/);
    });
  });
}
