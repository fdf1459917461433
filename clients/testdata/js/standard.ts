// The cases of LangChain's standard tests of sandboxes, for the backend of deepagents.
import assert from "node:assert/strict";
import { after, before, describe, it } from "node:test";
import type { SandboxBackendProtocolV2 } from "deepagents";
import { Gateway } from "podagent";
import { SandboxBackend } from "podagent/deepagents";
import { saw } from "./saw.js";

const encode = (text: string) => new TextEncoder().encode(text);

export function standard(): void {
  describe("standard tests", { concurrency: true }, () => {
    let box: SandboxBackend;
    let root: string;
    const at = (path: string) => `${root}/${path}`;
    before(async () => {
      box = await SandboxBackend.create();
      root = box.sandbox.workdir!;
      box satisfies SandboxBackendProtocolV2;
    });
    after(() => box.close());

    /** Runs a command that must succeed, and returns its output. */
    const sh = async (command: string): Promise<string> => {
      const { output, exitCode } = await box.execute(command);
      assert.equal(exitCode, 0, output);
      return output.trimEnd();
    };
    const text = async (path: string, offset?: number, limit?: number): Promise<string> => {
      const { content, error } = await box.read(at(path), offset, limit);
      assert.equal(error, undefined);
      return content as string;
    };
    const put = async (path: string, content: string): Promise<string> => {
      assert.deepEqual(await box.write(at(path), content), { path: at(path), filesUpdate: null });
      return at(path);
    };

    it("lifecycle: it runs until it is closed, and others attach to it", async () => {
      const gateway = new Gateway();
      const own = await SandboxBackend.create({ gateway });
      assert.match(own.id, /^[a-z0-9-]+$/);
      assert.equal(own.isRunning, true);
      await own.write("note", "left here");
      const other = await SandboxBackend.attach(own.id, { gateway });
      assert.equal((await other.read("note")).content, "left here");
      const ids = [];
      for await (const { id } of gateway.list()) ids.push(id);
      assert.ok(ids.includes(own.id));
      await own.close();
      await own.close(); // again
      assert.equal(own.isRunning, false);
      await assert.rejects(gateway.attach(own.id), { name: "ProblemError", class: "no_sandbox", status: 404 });
      await assert.rejects(other.execute("true"), { class: "no_sandbox" });
      saw("deepagents", "lifecycle");
    });

    it("command execution", async () => {
      assert.deepEqual(await box.execute('echo "hello"'), { output: "hello\n", exitCode: 0, truncated: false });
      assert.equal((await box.execute("exit 42")).exitCode, 42);
      assert.equal(await sh('echo "line1" && echo "line2" && echo "line3"'), "line1\nline2\nline3");
      assert.equal(await sh("echo out; echo error >&2; echo out again"), "out\nerror\nout again");
      assert.equal(await sh('export MY_VAR="test_value" && echo $MY_VAR'), "test_value");
      const missing = await box.execute("nonexistent_command_12345");
      assert.equal(missing.exitCode, 127);
      assert.match(missing.output, /line 1: nonexistent_command_12345/);
      assert.notEqual((await box.execute("if then")).exitCode, 0);
      assert.equal((await box.execute("kill -9 $$")).exitCode, 137);
      assert.equal(await sh("pwd"), root);
      saw("deepagents", "command execution");
    });

    it("command execution: a timeout of the call, and of the backend", async () => {
      let limit = 3;
      let slow = await box.execute("echo begun; sleep 1000", { timeout: limit });
      // A shell may need some time to begin.
      while (!slow.output.startsWith("begun") && limit < 300) {
        limit *= 10;
        slow = await box.execute("echo begun; sleep 1000", { timeout: limit });
      }
      assert.ok(slow.output.startsWith(`begun\n\n[The command was ended after ${limit} s]`), slow.output);
      assert.notEqual(slow.exitCode, 0);
      const impatient = new SandboxBackend(box.sandbox, { timeout: 0.2 });
      assert.match((await impatient.execute("sleep 1000")).output, /ended after 0.2 s/);
      assert.equal((await impatient.execute("sleep 0.3; echo done", { timeout: 0 })).output, "done\n");
      const abort = new AbortController();
      const running = box.execute("touch started; sleep 1000 & echo $! > child; wait", { signal: abort.signal });
      await sh("until [ -s child ]; do :; done");
      abort.abort();
      await assert.rejects(running, { name: "AbortError" });
      await sh("while kill -0 $(cat child) 2>/dev/null; do :; done");
      for await (const event of box.sandbox.stream({ script: "echo $$ > left; sleep 1000 & echo $! >> left; echo go; wait" })) {
        if (event.type === "stdout") break; // who leaves ends the command, too
      }
      await sh("for pid in $(cat left); do while kill -0 $pid 2>/dev/null; do :; done; done");
    });

    it("command execution: one that is aborted before it is known to run ends, too", async () => {
      let signalled!: (status: number) => void;
      const status = new Promise<number>((resolve) => (signalled = resolve));
      const abort = new AbortController();
      const watching: typeof fetch = async (input, init) => {
        if (String(input).endsWith("/exec")) setImmediate(() => abort.abort());
        const response = await fetch(input, init);
        if (String(input).endsWith("/signal")) signalled(response.status);
        return response;
      };
      const own = await SandboxBackend.attach(box.id, { gateway: new Gateway({ fetch: watching }) });
      await assert.rejects(own.execute("sleep 1000", { signal: abort.signal }), { name: "AbortError" });
      assert.equal(await status, 204);
    });

    it("command execution: of a long output, its beginning and its end", async () => {
      const small = new SandboxBackend(box.sandbox, { maxOutput: 20 });
      assert.deepEqual(await small.execute("printf 01234567890123456789"), { output: "01234567890123456789", exitCode: 0, truncated: false });
      const { output, truncated } = await small.execute("seq 1000");
      assert.equal(output, "1\n2\n3\n4\n5\n\n[3873 bytes are left out here]\n\n999\n1000\n");
      assert.equal(truncated, true);
      const { exitCode, output: much } = await box.execute("yes é | head -c 9000000");
      assert.equal(exitCode, 0);
      assert.ok(!much.slice(10).includes("\ufffd\ufffd") && much.length > 500_000 && much.length < 1_100_000);
    });

    it("file operations", async () => {
      const names = ["multi1.txt", "multi2.txt", "dir/multi3.bin"].map(at);
      const contents = [encode("Content 1"), encode("Inhalt 2 ü"), Uint8Array.from({ length: 70_000 }, (_, i) => i)];
      const files = names.map((name, i): [string, Uint8Array] => [name, contents[i]!]);
      assert.deepEqual(await box.uploadFiles(files), names.map((path) => ({ path, error: null })));
      assert.deepEqual(await box.downloadFiles(names), names.map((path, i) => ({ path, content: contents[i], error: null })));
      assert.equal(await sh(`cat ${names[0]}`), "Content 1");
      await sh("mkdir -p locked folder && chmod 500 locked");
      const missing = at("nonexistent-file-12345.txt");
      assert.deepEqual(await box.downloadFiles([missing, at("folder")]), [
        { path: missing, content: null, error: "file_not_found" },
        { path: at("folder"), content: null, error: "is_directory" },
      ]);
      const bad = `${"x".repeat(300)}`;
      assert.deepEqual(await box.uploadFiles([[at("folder"), encode("x")], [bad, encode("x")], [at("multi1.txt/x"), encode("x")]]), [
        { path: at("folder"), error: "is_directory" },
        { path: bad, error: "invalid_path" },
        { path: at("multi1.txt/x"), error: "invalid_path" },
      ]);
      saw("deepagents", "file operations");
    });

    it("write", async () => {
      assert.equal(await sh(`cat ${await put("wt-new.txt", "Hello, sandbox!\nLine 2\nLine 3")}`), "Hello, sandbox!\nLine 2\nLine 3");
      assert.equal(await sh(`cat ${await put("wt-parents/deep/nested/dir/file.txt", "Nested")}`), "Nested");
      await put("wt-existing.txt", "First content");
      assert.equal(await sh(`cat ${await put("wt-existing.txt", "Second content")}`), "Second content");
      const special = "Special chars: $VAR, `command`, $(subshell)\nTab\there\nBackslash: \\";
      assert.equal(await sh(`cat ${await put("wt-special.txt", special)}`), special);
      assert.equal(await sh(`stat -c %s ${await put("wt-empty.txt", "")}`), "0");
      assert.equal(await sh(`cat '${await put("wt-spaces/dir with spaces/file name.txt", "spaces")}'`), "spaces");
      const unicode = "Hello 👋 世界 مرحبا Привет 🌍\nLine with émojis 🎉";
      assert.equal(await sh(`cat ${await put("wt-unicode-é.txt", unicode)}`), unicode);
      await put("wt-slashes//subdir///file.txt", "Content");
      assert.equal(await sh(`cat ${at("wt-slashes/subdir/file.txt")}`), "Content");
      const long = Array.from({ length: 1000 }, (_, i) => `Line ${i} with some content here`).join("\n");
      assert.equal(await sh(`wc -l < ${await put("wt-long.txt", long)}`), "999");
      assert.equal(await sh(`wc -l < ${await put("wt-newlines.txt", "\n\n\n\n\n")}`), "5");
      assert.equal(await sh(`cat ${await put("wt.png", btoa("not really"))}`), "not really");
      assert.match((await box.write(at("wt.png"), "*")).error!, /base64/);
      assert.match((await box.write(root, "x")).error!, /directory/);
      saw("deepagents", "write");
    });

    it("read", async () => {
      await put("rd-basic.txt", "Line 1\nLine 2\nLine 3");
      assert.deepEqual(await box.read(at("rd-basic.txt")), {
        content: "Line 1\nLine 2\nLine 3", mimeType: "text/plain", startLine: 1, endLine: 3, totalLines: 3,
      });
      assert.match((await box.read(at("rd-nonexistent-xyz.txt"))).error!, /not found/);
      assert.match((await box.read(root)).error!, /directory/);
      await put("rd-empty.txt", "");
      assert.equal(await text("rd-empty.txt"), "");
      const rows = Array.from({ length: 100 }, (_, i) => `Row_${i + 1}_content`);
      await put("rd-rows.txt", `${rows.join("\n")}\n`);
      assert.equal(await text("rd-rows.txt", 95), rows.slice(95).join("\n"));
      assert.equal(await text("rd-rows.txt", 0, 5), rows.slice(0, 5).join("\n"));
      assert.deepEqual(await box.read(at("rd-rows.txt"), 10, 5), {
        content: rows.slice(10, 15).join("\n"), mimeType: "text/plain", startLine: 11, endLine: 15, totalLines: 100, nextOffset: 15,
      });
      for (const [offset, limit] of [[0, 0], [100, 10], [1000, 10]]) assert.equal(await text("rd-rows.txt", offset, limit), "");
      const unicode = "Hello 👋 世界\nПривет мир\nمرحبا العالم";
      await put("rd-unicode.txt", unicode);
      assert.equal(await text("rd-unicode.txt"), unicode);
      const long = "x".repeat(3000);
      await put("rd-long.txt", `Short line\n${long}\nAnother`);
      assert.equal(await text("rd-long.txt"), `Short line\n${long}\nAnother`);
      await put("rd-chunked.txt", Array.from({ length: 1000 }, (_, i) => `Line_${i}`).join("\n"));
      assert.match(await text("rd-chunked.txt", 900, 100), /^Line_900\n.*Line_999$/s);
      saw("deepagents", "read");
    });

    it("read: of a large file no more than it must, and a binary one as what it is", async () => {
      await sh("seq 3000000 > rd-large; printf 'a\\0b' > rd-zero; printf '\\x89PNG' > rd.png");
      assert.deepEqual(await box.read(at("rd-large"), 1, 2), { content: "2\n3", mimeType: "text/plain", startLine: 2, endLine: 3, nextOffset: 3 });
      assert.match((await box.read(at("rd-zero"))).error!, /binary/);
      assert.deepEqual(await box.read(at("rd.png")), { content: Uint8Array.from([0x89, 0x50, 0x4e, 0x47]), mimeType: "image/png" });
      const { data } = await box.readRaw(at("rd.png"));
      assert.deepEqual(data!.content, Uint8Array.from([0x89, 0x50, 0x4e, 0x47]));
      assert.ok(Date.parse(data!.modified_at) > 0);
      assert.match((await box.readRaw(at("rd-none"))).error!, /not found/);
      await sh("truncate -s 11000000 rd-large.png; head -c 11000000 /dev/zero | tr '\\0' x > rd-line");
      assert.match((await box.read(at("rd-large.png"))).error!, /too large/);
      assert.match((await box.read(at("rd-line"))).error!, /too long/);
    });

    it("edit", async () => {
      const edited = async (before: string, old: string, by: string, all = false): Promise<[number | undefined, string]> => {
        await put("ed.txt", before);
        const { error, occurrences } = await box.edit(at("ed.txt"), old, by, all);
        assert.equal(error, undefined);
        return [occurrences, await sh("cat ed.txt")];
      };
      assert.deepEqual(await edited("Hello world\nGoodbye world", "Goodbye", "Farewell"), [1, "Hello world\nFarewell world"]);
      assert.deepEqual(await edited("apple\nbanana\napple\napple", "apple", "pear", true), [3, "pear\nbanana\npear\npear"]);
      assert.deepEqual(await edited("Price: $100.00\n[a-z]*", "$100.00", "$200.00"), [1, "Price: $200.00\n[a-z]*"]);
      assert.deepEqual(await edited("Price: $100.00\n[a-z]*", "[a-z]*", "[0-9]+"), [1, "Price: $100.00\n[0-9]+"]);
      assert.deepEqual(await edited("Line 1\nLine 2\nLine 3", "Line 1\nLine 2", "Combined"), [1, "Combined\nLine 3"]);
      assert.deepEqual(await edited("Keep\nDelete this\nKeep too", "Delete this\n", ""), [1, "Keep\nKeep too"]);
      assert.deepEqual(await edited("Same text", "Same text", "Same text"), [1, "Same text"]);
      assert.deepEqual(await edited("Hello 👋\n世界", "👋", "🌍"), [1, "Hello 🌍\n世界"]);
      assert.deepEqual(await edited("Line1    Line2", "    ", " "), [1, "Line1 Line2"]);
      assert.deepEqual(await edited(`Start\n${"x".repeat(1000)}\nEnd`, "x".repeat(1000), "y"), [1, "Start\ny\nEnd"]);
      assert.deepEqual(await edited("The quick brown fox jumps", "brown fox", "red cat"), [1, "The quick red cat jumps"]);
      assert.deepEqual(await edited("", "", "filled"), [1, "filled"]);
      assert.deepEqual(await edited("", "", ""), [0, ""]);
      saw("deepagents", "edit");
    });

    it("edit: what does not fit changes nothing", async () => {
      await put("ed-not.txt", "apple\nbanana\napple");
      assert.match((await box.edit(at("ed-not.txt"), "apple", "pear", false)).error!, /^Multiple.*2 times/);
      assert.match((await box.edit(at("ed-not.txt"), "cherry", "pear")).error!, /not found/);
      assert.match((await box.edit(at("ed-not.txt"), "cherry", "cherry")).error!, /not found/);
      assert.match((await box.edit(at("ed-not.txt"), "", "pear")).error!, /must not be empty/);
      assert.match((await box.edit(at("ed-none.txt"), "old", "new")).error!, /not found/);
      assert.equal(await text("ed-not.txt"), "apple\nbanana\napple");
    });

    it("ls", async () => {
      const names = ["file1.txt", ".hidden", "file with spaces.txt", "测试文件.txt", "файл.txt", "file(1).txt"];
      for (const name of names) await put(`li/${name}`, "content");
      await sh("mkdir -p 'li/dir with spaces' li-empty li-large && ln -s file1.txt li/link && ln -s ../li-empty li/dirlink && ln -s nowhere li/broken");
      const { files, error } = await box.ls(at("li"));
      assert.equal(error, undefined);
      const entries = new Map(files!.map((file) => [file.path, file]));
      assert.deepEqual([...entries.keys()].sort(), [...names, "dir with spaces/", "link", "dirlink/", "broken"].map((name) => at(`li/${name}`)).sort());
      assert.equal(entries.get(at("li/dir with spaces/"))!.is_dir, true);
      const { is_dir, size, modified_at } = entries.get(at("li/link"))!;
      assert.deepEqual({ is_dir, size }, { is_dir: false, size: 7 });
      assert.ok(Date.parse(modified_at!) > 0);
      assert.deepEqual((await box.ls(at("li-empty"))).files, []);
      assert.deepEqual(await box.ls(at("li-does-not-exist-12345")), { files: [] });
      assert.equal((await box.ls(`${at("li")}/`)).files!.length, entries.size);
      assert.match((await box.ls(at("li/file1.txt"))).error!, /directory/);
      await sh("for i in $(seq 1000); do echo content > li-large/file_$i.txt; done");
      assert.equal((await box.ls(at("li-large"))).files!.length, 1000);
      saw("deepagents", "ls");
    });

    it("grep", async () => {
      await put("gr/file1.txt", "Hello world\nGoodbye\nhello\nPrice: $100\nPattern: [a-z]*\n世界");
      await put("gr/sub/deep/file2.py", "Hello there\nHello again");
      await put("gr/.hidden", "Hello hidden");
      await put("gr/.gitignore", "*.log");
      await put("gr/a.log", "Hello log");
      await sh("mkdir gr/empty; printf 'Hello\\0' > gr/binary");
      const found = async (pattern: string, glob?: string | null, path = at("gr")) => {
        const { matches, error } = await box.grep(pattern, path, glob);
        assert.equal(error, undefined);
        return matches!.map(({ path, line, text }) => `${path.slice(root.length + 1)}:${line}:${text}`);
      };
      assert.deepEqual((await found("Hello")).sort(), [
        "gr/.hidden:1:Hello hidden", "gr/a.log:1:Hello log", "gr/file1.txt:1:Hello world",
        "gr/sub/deep/file2.py:1:Hello there", "gr/sub/deep/file2.py:2:Hello again",
      ]);
      assert.deepEqual(await found("Hello", "*.py"), ["gr/sub/deep/file2.py:1:Hello there", "gr/sub/deep/file2.py:2:Hello again"]);
      assert.deepEqual(await found("Hello", "sub/**/*.py", at("gr")), await found("Hello", "*.py"));
      assert.deepEqual(await found("$100"), ["gr/file1.txt:4:Price: $100"]);
      assert.deepEqual(await found("[a-z]*"), ["gr/file1.txt:5:Pattern: [a-z]*"]);
      assert.deepEqual(await found("世界"), ["gr/file1.txt:6:世界"]);
      assert.deepEqual(await found("Hello", null, at("gr/file1.txt")), ["gr/file1.txt:1:Hello world"]);
      for (const path of ["gr/empty", "gr/none"]) assert.deepEqual(await found("anything", null, at(path)), []);
      assert.deepEqual(await found("nonexistent_str"), []);
      const two = await box.grep("Hello", at("gr"), null, 2);
      assert.deepEqual([two.matches!.length, two.truncated], [2, true]);
      const inWorkdir = await box.grep("Hello there");
      assert.deepEqual(inWorkdir.matches!.map(({ path }) => path), [at("gr/sub/deep/file2.py")]);
      saw("deepagents", "grep");
    });

    it("glob", async () => {
      for (const name of ["file1.txt", "file2.txt", "file10.txt", "fileA.txt", "test.py", ".hidden1", "a/b/c/d/deep.txt", "a/b/other.md"]) await put(`gl/${name}`, "x");
      const found = async (pattern: string, path = at("gl")) => {
        const { files, error } = await box.glob(pattern, path);
        assert.equal(error, undefined);
        return files!.map((file) => file.path + (file.is_dir ? "/" : "")).sort();
      };
      assert.deepEqual(await found("*.py"), ["test.py"]);
      assert.deepEqual(await found("**/*.txt"), ["a/b/c/d/deep.txt", "file1.txt", "file10.txt", "file2.txt", "fileA.txt"]);
      assert.deepEqual(await found("*.go"), []);
      assert.deepEqual(await found("*", at("gl/a/b")), ["c/", "other.md"]);
      assert.deepEqual(await found(".*"), [".hidden1"]);
      assert.deepEqual(await found("file[1-2].txt"), ["file1.txt", "file2.txt"]);
      assert.deepEqual(await found("file?.txt"), ["file1.txt", "file2.txt", "fileA.txt"]);
      assert.deepEqual(await found("**/deep.txt"), ["a/b/c/d/deep.txt"]);
      assert.deepEqual(await found("/a/**/*.md"), ["a/b/other.md"]);
      assert.deepEqual(await found(`${at("gl")}/*.py`), [at("gl/test.py")]);
      assert.deepEqual(await found("*", at("gl/none")), []);
      assert.deepEqual((await box.glob("gl/*.py")).files, [{ path: at("gl/test.py"), is_dir: false }]);
      assert.match((await box.glob("[", at("gl"))).error!, /pattern/);
      saw("deepagents", "glob");
    });

    it("delete", async () => {
      await put("de/a/file", "x");
      assert.deepEqual(await box.delete(at("de/a/file")), { path: at("de/a/file"), filesUpdate: null });
      assert.match((await box.delete(at("de/a/file"))).error!, /not found/);
      assert.deepEqual(await box.delete(at("de")), { path: at("de"), filesUpdate: null });
      assert.deepEqual((await box.ls(at("de"))).files, []);
      saw("deepagents", "delete");
    });

    it("initial files", async () => {
      const files = { "init.txt": "Hello", "src/components/Button/index.tsx": "export {}", "script.sh": "#!/bin/sh\necho ran", bytes: Uint8Array.of(0, 255) };
      const own = await SandboxBackend.create({ initialFiles: files });
      try {
        assert.equal((await own.execute("cat init.txt src/components/Button/index.tsx")).output, "Helloexport {}");
        assert.equal((await own.execute("sh script.sh")).output, "ran\n");
        assert.equal((await own.read("init.txt")).content, "Hello");
        assert.deepEqual((await own.downloadFiles(["bytes"]))[0]!.content, Uint8Array.of(0, 255));
        const { files: listed } = await own.ls(`${own.sandbox.workdir}/src`);
        assert.deepEqual(listed!.map((file) => file.path), [`${own.sandbox.workdir}/src/components/`]);
      } finally {
        await own.close();
      }
      const empty = await SandboxBackend.create({ initialFiles: {} });
      assert.equal((await empty.execute("ls -A | wc -l")).output.trim(), "0");
      await empty.close();
      saw("deepagents", "initial files");
    });

    it("initial files: of a sandbox that cannot have them nothing is left", async () => {
      const gateway = new Gateway();
      const count = async () => {
        let n = 0;
        for await (const _ of gateway.list({ label: "test=initial" })) n++;
        return n;
      };
      await assert.rejects(SandboxBackend.create({ gateway, sandbox: { labels: { test: "initial" } }, initialFiles: { ["x".repeat(300)]: "" } }), { class: "name_too_long" });
      assert.equal(await count(), 0);
    });
  });
}
