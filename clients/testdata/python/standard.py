"""The cases of LangChain's standard tests of sandboxes, for the backend of deepagents."""

import asyncio
import base64
import json
import re
import unittest

from podagent import Gateway, errors
from podagent.deepagents import SandboxBackend


def saw(*operations):
    """Tells the test what works."""
    for operation in operations:
        print(json.dumps({"operation": operation}), flush=True)


class Standard(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.box = SandboxBackend.create()
        cls.root = cls.box.sandbox.workdir

    @classmethod
    def tearDownClass(cls):
        cls.box.close()

    def at(self, path):
        return f"{self.root}/{path}"

    def sh(self, command):
        """Runs a command that must succeed, and returns its output."""
        got = self.box.execute(command)
        self.assertEqual(got.exit_code, 0, got.output)
        return got.output.rstrip("\n")

    def put(self, path, content):
        got = self.box.write(self.at(path), content)
        self.assertEqual((got.error, got.path), (None, self.at(path)))
        return self.at(path)

    def text(self, path, *window):
        got = self.box.read(self.at(path), *window)
        self.assertIsNone(got.error)
        self.assertEqual(got.file_data["encoding"], "utf-8")
        return got.file_data["content"]

    def test_lifecycle(self):
        gateway = Gateway()
        own = SandboxBackend.create(gateway)
        self.assertTrue(own.is_running)
        own.write("note", "left here")
        other = SandboxBackend(gateway.attach(own.id))
        self.assertEqual(other.read("note").file_data["content"], "left here")
        self.assertIn(own.id, [info["id"] for info in gateway.list()])
        own.close()
        own.close()  # again
        self.assertFalse(own.is_running)
        with self.assertRaises(errors.NoSandboxError):
            gateway.attach(own.id)
        with self.assertRaises(errors.NoSandboxError):
            other.execute("true")
        gateway.close()
        saw("lifecycle")

    def test_command_execution(self):
        got = self.box.execute('echo "hello"')
        self.assertEqual((got.output, got.exit_code, got.truncated), ("hello\n", 0, False))
        self.assertEqual(self.box.execute("exit 42").exit_code, 42)
        self.assertEqual(self.sh("echo out; echo error >&2; echo out again"), "out\nerror\nout again")
        missing = self.box.execute("nonexistent_command_12345")
        self.assertEqual(missing.exit_code, 127)
        self.assertIn("line 1: nonexistent_command_12345", missing.output)
        self.assertEqual(self.sh("pwd"), self.root)
        for limit in 3, 30, 300:  # a shell may need some time to begin
            slow = self.box.execute("echo begun; sleep 1000", timeout=limit)
            if slow.output.startswith("begun"):
                break
        self.assertIn(f"begun\n\n[The command was ended after {limit} s]", slow.output)
        self.assertNotEqual(slow.exit_code, 0)
        impatient = SandboxBackend(self.box.sandbox, timeout=0.2, max_output=20)
        self.assertIn("ended after 0.2 s", impatient.execute("sleep 1000").output)
        self.assertFalse(impatient.execute("printf 01234567890123456789", timeout=0).truncated)
        long = impatient.execute("seq 1000", timeout=0)
        self.assertEqual(long.output, "1\n2\n3\n4\n5\n\n[3873 bytes are left out here]\n\n999\n1000\n")
        self.assertTrue(long.truncated)
        saw("command execution")

    def test_file_operations(self):
        contents = [b"Content 1", b"special \n\t\r\x00", bytes(range(256)), b"0123456789abcdef" * 655360]
        files = [(self.at(f"dir/multi{i}"), content) for i, content in enumerate(contents)]
        self.assertEqual([(got.path, got.error) for got in self.box.upload_files(files)], [(path, None) for path, _ in files])
        got = self.box.download_files([path for path, _ in files])
        self.assertEqual([(one.path, one.content, one.error) for one in got], [(path, content, None) for path, content in files])
        self.assertEqual(self.sh(f"wc -c < {files[3][0]}"), str(len(contents[3])))
        wrong = [self.at("none"), self.root, "relative/path.txt"]
        codes = ["file_not_found", "is_directory", "invalid_path"]
        self.assertEqual([(one.path, one.content, one.error) for one in self.box.download_files(wrong)], [(path, None, code) for path, code in zip(wrong, codes)])
        wrong = [self.root, self.at("x" * 300), "relative.txt"]
        self.assertEqual([one.error for one in self.box.upload_files([(path, b"") for path in wrong])], ["is_directory", "invalid_path", "invalid_path"])
        saw("file operations")

    def test_write(self):
        contents = {
            "new.txt": "Hello, sandbox!\nLine 2\nLine 3",
            "deep/nested/dir/file.txt": "Nested",
            "special.txt": "$VAR, `command`, $(subshell), 'quotes', \"quotes\"\nTab\there\nBackslash: \\",
            "empty.txt": "",
            "dir with spaces/file name.txt": "spaces",
            "unicode-é.txt": "Hello 👋 世界 مرحبا Привет 🌍\nLine with émojis 🎉",
            "long.txt": "\n".join(f"Line {i} with some content here" for i in range(1000)),
        }
        for name, content in contents.items():
            self.assertEqual(self.sh(f"cat '{self.put('wt/' + name, content)}'"), content)
        self.assertEqual(self.sh(f"wc -l < {self.put('wt/newlines', chr(10) * 5)}"), "5")
        self.put("wt/twice", "First content")
        self.assertEqual(self.sh(f"cat {self.put('wt/twice', 'Second content')}"), "Second content")
        self.put("wt//slashes///file", "Content")
        self.assertEqual(self.sh(f"cat {self.at('wt/slashes/file')}"), "Content")
        self.assertIn("directory", self.box.write(self.root, "x").error)
        saw("write")

    def test_read(self):
        self.put("rd", "Line 1\nLine 2\nLine 3")
        got = self.box.read(self.at("rd"))
        self.assertEqual((got.total_lines, got.start_line, got.end_line, got.next_offset), (3, 1, 3, None))
        self.assertEqual(got.file_data, {"content": "Line 1\nLine 2\nLine 3", "encoding": "utf-8"})
        self.assertIn("not found", self.box.read(self.at("rd-none")).error)
        self.assertIn("not found", self.box.read("'; import os; os.system('echo INJECTED'); #").error)
        self.assertIn("directory", self.box.read(self.root).error)
        self.assertEqual(self.text(self.put("rd-empty", "")[len(self.root) + 1 :]), "")
        rows = [f"Row_{i}_content" for i in range(1, 101)]
        self.put("rd-rows", "\n".join(rows) + "\n")
        self.assertEqual(self.text("rd-rows", 95), "\n".join(rows[95:]))
        self.assertEqual(self.text("rd-rows", -3, 5), "\n".join(rows[:5]))
        got = self.box.read(self.at("rd-rows"), 10, 5)
        self.assertEqual((got.total_lines, got.start_line, got.end_line, got.next_offset), (100, 11, 15, 15))
        for window in [(0, 0), (0, -1), (100, 10), (1000, 10)]:
            got = self.box.read(self.at("rd-rows"), *window)
            self.assertEqual((got.file_data["content"], got.start_line, got.total_lines), ("", None, None))
        unicode = "Hello 👋 世界\nПривет мир\n" + "x" * 3000
        self.put("rd-unicode", unicode)
        self.assertEqual(self.text("rd-unicode"), unicode)
        self.sh("seq 3000000 > rd-large; truncate -s 11000000 rd-zero; head -c 11000000 /dev/zero | tr '\\0' x > rd-line")
        got = self.box.read(self.at("rd-large"), 1, 2)
        self.assertEqual((got.file_data["content"], got.total_lines, got.next_offset), ("2\n3", None, 3))
        self.assertIn("too large", self.box.read(self.at("rd-zero")).error)
        self.assertIn("too long", self.box.read(self.at("rd-line")).error)
        self.box.upload_files([(self.at("rd.png"), bytes(range(256)))])
        got = self.box.read(self.at("rd.png")).file_data
        self.assertEqual((got["encoding"], base64.b64decode(got["content"])), ("base64", bytes(range(256))))
        saw("read")

    def test_edit(self):
        cases = [
            ("Hello world\nGoodbye world", "Goodbye", "Farewell", False, 1, "Hello world\nFarewell world"),
            ("apple\nbanana\napple\napple", "apple", "pear", True, 3, "pear\nbanana\npear\npear"),
            ("Price: $100.00\n[a-z]*", "[a-z]*", "[0-9]+", False, 1, "Price: $100.00\n[0-9]+"),
            ("Line 1\nLine 2\nLine 3", "Line 1\nLine 2", "Combined", False, 1, "Combined\nLine 3"),
            ("Keep\nDelete this\nToo", "Delete this\n", "", False, 1, "Keep\nToo"),
            ("Same text", "Same text", "Same text", False, 1, "Same text"),
            ("Hello 👋", "👋", "🌍", False, 1, "Hello 🌍"),
            ("", "", "filled", False, 1, "filled"),
            ("", "", "", False, 0, ""),
        ]
        for before, old, new, all, count, after in cases:
            self.put("ed", before)
            got = self.box.edit(self.at("ed"), old, new, all)
            self.assertEqual((got.error, got.occurrences, self.sh("cat ed")), (None, count, after))
        self.put("ed", "apple\nbanana\napple")
        wrong = {("apple", "pear"): "^Multiple.*2 times", ("cherry", "x"): "not found", ("cherry", "cherry"): "not found", ("", "x"): "must not be empty"}
        for (old, new), message in wrong.items():
            self.assertRegex(self.box.edit(self.at("ed"), old, new).error, message)
        self.assertIn("not found", self.box.edit(self.at("ed-none"), "old", "new").error)
        self.assertEqual(self.text("ed"), "apple\nbanana\napple")
        saw("edit")

    def test_ls(self):
        names = ["a.txt", ".hidden", "file with spaces.txt", "测试文件.txt", "файл.txt", "file(1).txt", "file[2].txt"]
        self.box.upload_files([(self.at(f"li/{name}"), b"content") for name in names])
        self.sh("mkdir -p li/subdir li-empty li-large; ln -s a.txt li/link; ln -s ../li-empty li/dirlink; ln -s nowhere li/broken")
        got = self.box.ls(self.at("li"))
        self.assertIsNone(got.error)
        entries = {entry["path"]: entry for entry in got.entries}
        self.assertEqual(sorted(entries), sorted(self.at(f"li/{name}") for name in [*names, "subdir", "link", "dirlink", "broken"]))
        self.assertEqual({path for path, entry in entries.items() if entry["is_dir"]}, {self.at("li/subdir"), self.at("li/dirlink")})
        self.assertEqual(entries[self.at("li/link")]["size"], 7)
        self.assertEqual(self.box.ls(self.at("li-empty")).entries, [])
        self.assertEqual(len(self.box.ls(self.at("li") + "/").entries), len(entries))
        for wrong in ["li-none", "li/a.txt", "'; import os; #"]:
            self.assertIsNotNone(self.box.ls(self.at(wrong)).error)
        self.sh("for i in $(seq 1000); do echo content > li-large/file_$i.txt; done")
        self.assertEqual(len(self.box.ls(self.at("li-large")).entries), 1000)
        saw("ls")

    def test_grep(self):
        self.put("gr/file1.txt", "Hello world\nGoodbye\nhello\nstr | int\nPattern: [a-z]*\n世界")
        self.put("gr/sub/deep/file2.py", "Hello there\nHello again")
        self.put("gr/.hidden", "Hello hidden")
        self.sh("mkdir gr/empty")

        def found(pattern, glob=None, path="gr"):
            got = self.box.grep(pattern, self.at(path), glob)
            self.assertIsNone(got.error)
            return [f"{match['path'][len(self.root) + 1 :]}:{match['line']}:{match['text']}" for match in got.matches]

        below = ["gr/sub/deep/file2.py:1:Hello there", "gr/sub/deep/file2.py:2:Hello again"]
        self.assertEqual(sorted(found("Hello")), ["gr/.hidden:1:Hello hidden", "gr/file1.txt:1:Hello world", *below])
        for glob in ["*.py", "sub/**/*.py", "**/*.py"]:
            self.assertEqual(found("Hello", glob), below)
        self.assertEqual(found("str | int"), ["gr/file1.txt:4:str | int"])
        self.assertEqual(found("[a-z]*"), ["gr/file1.txt:5:Pattern: [a-z]*"])
        self.assertEqual(found("世界"), ["gr/file1.txt:6:世界"])
        self.assertEqual(found("anything", path="gr/empty"), [])
        self.assertIn("not found", self.box.grep("x", self.at("gr-none")).error)
        got = self.box.grep("Hello", self.at("gr"), max_count=2)
        self.assertEqual((len(got.matches), got.truncated), (2, True))
        self.assertEqual([match["path"] for match in self.box.grep("Hello there").matches], [self.at("gr/sub/deep/file2.py")])
        saw("grep")

    def test_glob(self):
        names = ["file1.txt", "file2.txt", "file10.txt", "fileA.txt", "test.py", ".hidden", ".github/ci.yml", "a/b/deep.txt", "a/b/other.md"]
        self.box.upload_files([(self.at(f"gl/{name}"), b"x") for name in names])

        def found(pattern, path="gl"):
            got = self.box.glob(pattern, self.at(path))
            self.assertIsNone(got.error)
            self.assertFalse(any(match["is_dir"] for match in got.matches))
            top = self.at(path) + "/"
            return sorted(re.sub("^" + re.escape(top), "", match["path"]) for match in got.matches)

        self.assertEqual(found("*.py"), ["test.py"])
        self.assertEqual(found("*.txt"), ["a/b/deep.txt", "file1.txt", "file10.txt", "file2.txt", "fileA.txt"])
        self.assertEqual(found("/*.txt"), ["file1.txt", "file10.txt", "file2.txt", "fileA.txt"])
        self.assertEqual(found("**/*.md"), ["a/b/other.md"])
        self.assertEqual(found("*.yml"), [".github/ci.yml"])
        self.assertEqual(found("**/*.yml"), [])
        self.assertEqual(found(".hidden"), [".hidden"])
        self.assertEqual(found("*", "gl/a"), ["b/deep.txt", "b/other.md"])
        self.assertEqual(found("file[1-2].txt"), ["file1.txt", "file2.txt"])
        self.assertEqual(found("file?.{txt,md}"), ["file1.txt", "file2.txt", "fileA.txt"])
        self.assertEqual(found("*.go"), [])
        self.assertEqual([match["path"] for match in self.box.glob("test.py").matches], [self.at("gl/test.py")])
        self.assertIn("pattern", self.box.glob("[", self.at("gl")).error)
        saw("glob")

    def test_delete(self):
        self.put("de/a/file", "x")
        self.assertEqual(self.box.delete(self.at("de/a/file")).path, self.at("de/a/file"))
        self.assertIn("not found", self.box.delete(self.at("de/a/file")).error)
        self.assertIsNone(self.box.delete(self.at("de")).error)
        self.assertEqual(self.box.execute("test -e de").exit_code, 1)
        saw("delete")

    def test_initial_files(self):
        files = {"init.txt": "Hello", "src/Button/index.tsx": "export {}", "script.sh": "#!/bin/sh\necho ran", "bytes": b"\0\xff"}
        own = SandboxBackend.create(initial_files=files)
        try:
            self.assertEqual(own.execute("cat init.txt src/Button/index.tsx; sh script.sh").output, "Helloexport {}ran\n")
            self.assertEqual(own.sandbox.read("bytes"), b"\0\xff")
        finally:
            own.close()
        with self.assertRaises(errors.NameTooLongError):
            SandboxBackend.create(initial_files={"x" * 300: ""}, labels={"test": "initial"})
        self.assertEqual(list(Gateway().list(label="test=initial")), [])
        saw("initial files")

    def test_asynchronous(self):
        async def walk():
            content = "\n".join(f"Line_{i:04d}_content" for i in range(2500))
            path = self.at("async.txt")
            self.assertIsNone((await self.box.awrite(path, content)).error)
            pages = await asyncio.gather(*(self.box.aread(path, offset=offset, limit=100) for offset in range(0, 2500, 100)))
            self.assertEqual("\n".join(page.file_data["content"] for page in pages), content)
            self.assertEqual((await self.box.aedit(path, "Line_0000_", "first_")).occurrences, 1)
            self.assertEqual(len((await self.box.agrep("Line_", self.root, "async.txt", max_count=7)).matches), 7)
            self.assertEqual([one["path"] for one in (await self.box.aglob("async.txt")).matches], [path])
            self.assertIn(path, [one["path"] for one in (await self.box.als(self.root)).entries])
            self.assertEqual((await self.box.adownload_files([path]))[0].content.decode()[:6], "first_")
            self.assertIsNone((await self.box.aupload_files([(path, b"")]))[0].error)
            self.assertEqual((await self.box.aexecute("cat async.txt; exit 4", timeout=60)).exit_code, 4)
            self.assertIsNone((await self.box.adelete(path)).error)

        asyncio.run(walk())
