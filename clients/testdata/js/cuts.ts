// Connections that break cost a command a delay, and no byte.
import assert from "node:assert/strict";
import { createHash } from "node:crypto";
import { once } from "node:events";
import { type AddressInfo, connect, createServer, type Server } from "node:net";
import { buffer } from "node:stream/consumers";
import { after, before, describe, it } from "node:test";
import { CutError, Gateway, type Sandbox } from "podagent";
import { SandboxProcess } from "podagent/claude";

const each = 150_000; // bytes of answers, after which a connection breaks

/** Listens before the gateway, and breaks each connection after some bytes of answers. */
async function breaking(cut: () => void): Promise<Server> {
  const target = new URL(process.env["PODAGENT_GATEWAY"]!);
  const server = createServer((caller) => {
    const gateway = connect(Number(target.port), target.hostname);
    let left = each;
    gateway.on("data", (data) => {
      caller.write(data.subarray(0, left));
      left -= data.length;
      if (left > 0) return;
      cut();
      caller.end(() => caller.destroy());
      gateway.destroy();
    });
    caller.pipe(gateway);
    for (const socket of [caller, gateway]) socket.on("error", () => {});
    caller.on("close", () => gateway.destroy());
    gateway.on("close", () => caller.destroy());
  });
  server.listen(0, "127.0.0.1");
  await once(server, "listening");
  return server;
}

const sum = (data: Uint8Array | string) => createHash("sha256").update(data).digest("hex");

export function cuts(): void {
  describe("through connections that break", () => {
    let server: Server;
    let sandbox: Sandbox;
    let count = 0;
    before(async () => {
      server = await breaking(() => count++);
      sandbox = await new Gateway({ url: `http://127.0.0.1:${(server.address() as AddressInfo).port}` }).create();
    });
    after(async () => {
      await sandbox.delete();
      server.close();
    });

    it("a command runs once, and each byte of its output comes once", async () => {
      const hash = createHash("sha256");
      let at = 0;
      const starts: string[] = [];
      for await (const event of sandbox.stream({ script: "echo ran >> runs; seq 200000", stdin: "unused" })) {
        if (event.type === "start") starts.push(event.execId);
        if (event.type !== "stdout") continue;
        assert.equal(event.offset, at);
        at += event.data.length;
        hash.update(event.data);
      }
      assert.equal(hash.digest("hex"), sum(`${Array.from({ length: 200_000 }, (_, i) => i + 1).join("\n")}\n`));
      assert.equal(starts.length, 1);
      assert.equal(new TextDecoder().decode(await sandbox.read("runs")), "ran\n");
      assert.ok(count > 5, `${count} connections broke`);
    });

    it("the file of a checkpoint is whole, or an error", async () => {
      await sandbox.exec({ script: "head -c 300000 /dev/urandom > random" });
      const { id } = await sandbox.checkpoint();
      await assert.rejects(buffer(sandbox.exportCheckpoint(id)), CutError);
    });

    it("standard input arrives once", async () => {
      const input = new Uint8Array(700_000).map((_, i) => i * 7);
      const { stdoutOmitted } = await sandbox.exec({ script: "cat > copy; cat copy | base64", stdin: input });
      assert.equal(stdoutOmitted, 0);
      assert.equal((await sandbox.exec({ script: "sha256sum copy" })).stdout.slice(0, 64), sum(input));
      const child = new SandboxProcess(sandbox, { args: ["cat"] });
      const echo = buffer(child.stdout);
      for (let at = 0; at < input.length; at += 70_000) child.stdin.write(input.subarray(at, at + 70_000));
      child.stdin.end();
      assert.equal(sum(await echo), sum(input));
    });
  });
}
