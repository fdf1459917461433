// States of the files that a sandbox goes back to, and gives to another one.
import assert from "node:assert/strict";
import { buffer } from "node:stream/consumers";
import { after, describe, it } from "node:test";
import { Gateway, type Sandbox } from "podagent";

export function checkpoints(): void {
  describe("checkpoints", { concurrency: true }, () => {
    const made: Sandbox[] = [];
    after(() => Promise.all(made.map((sandbox) => sandbox.delete())));
    const create = async () => {
      made.push(await new Gateway().create());
      return made.at(-1)!;
    };
    const read = async (box: Sandbox, path: string) => new TextDecoder().decode(await box.read(path));

    it("bring files back", async () => {
      const box = await create();
      await box.exec({ script: String.raw`echo 1 > a; echo 1 > b; echo 1 > log; echo 1 > $(printf 'x\377')` });
      const first = await box.checkpoint({ name: "tests pass", exclude: ["log"] });
      assert.deepEqual([first.name, first.left_out, first.files], ["tests pass", [], 3]);
      assert.deepEqual(await box.diff(first.id).all(), []);
      await box.exec({ script: "echo 2 > a; echo 2 > log; echo 2 > new; rm x*" });
      const found = await box.diff(first.id, { text: true }).all();
      assert.deepEqual(found.map(({ path, how }) => [path, how]).sort(), [["a", "modified"], ["new", "added"], ["x\ufffd", "removed"]]);
      assert.match(found.find(({ path }) => path === "a")!.diff!, /-1\n\+2\n/);
      const second = await box.checkpoint({ automatic: true, exclude: ["log"] });
      assert.deepEqual((await box.checkpoints()).map(({ id, automatic }) => [id, automatic]), [[first.id, undefined], [second.id, true]]);
      const between = await box.diff(first.id, { to: second.id }).all();
      assert.deepEqual(between.map(({ path }) => path).sort(), found.map(({ path }) => path).sort());
      assert.equal(between[0]!.diff, undefined);
      await box.restore(first.id, ["a"]);
      assert.deepEqual([await read(box, "a"), await read(box, "new")], ["1\n", "2\n"]);
      const { kept, before } = await box.restore(first.id);
      assert.deepEqual([kept, await read(box, "log")], [[], "2\n"]);
      await assert.rejects(box.read("new"), { class: "not_exist" });
      await box.restore(before.id);
      assert.equal(await read(box, "new"), "2\n");
      await box.removeCheckpoint(second.id);
      const { id } = second;
      for (const act of [() => box.removeCheckpoint(id), () => box.restore(id), () => box.diff(id).all(), () => buffer(box.exportCheckpoint(id))]) {
        await assert.rejects(act, { class: "not_exist" });
      }
    });

    it("come and go as files", async () => {
      const box = await create();
      await box.exec({ script: "head -c 3000000 /dev/urandom > large; echo 1 > a" });
      const { id } = await box.checkpoint();
      const file = await buffer(box.exportCheckpoint(id));
      const other = await create();
      for (const given of [file, box.exportCheckpoint(id)]) assert.equal((await other.importCheckpoint(given)).id, id);
      await other.restore(id);
      assert.deepEqual(await other.read("large"), await box.read("large"));
      await assert.rejects(other.importCheckpoint(file.subarray(0, -1)), { class: "checksum" });
      const none = async function* () {
        yield new TextEncoder().encode("no file");
      };
      await assert.rejects(other.importCheckpoint(none()), { class: "invalid" });
    });
  });
}
