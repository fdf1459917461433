"""States of the files that a sandbox goes back to, and gives to another one."""

import io
import unittest

from podagent import CutError, Gateway, errors

from client import Breaking


class Checkpoints(unittest.TestCase):
    def setUp(self):
        self.sandbox = self.made(Gateway())

    def made(self, gateway):
        sandbox = gateway.create()
        self.addCleanup(sandbox.delete)
        return sandbox

    def test_bring_files_back(self):
        box = self.sandbox
        box.exec(r"echo 1 > a; echo 1 > b; echo 1 > log; echo 1 > $(printf 'x\377')")
        first = box.checkpoint("tests pass", exclude=["log"])
        self.assertEqual((first["name"], first["left_out"], first["files"]), ("tests pass", [], 3))
        self.assertEqual(box.diff(first["id"]).results, [])
        box.exec("echo 2 > a; echo 2 > log; echo 2 > new; rm x*")
        found = box.diff(first["id"], text=True)
        self.assertEqual({line["path"]: line["how"] for line in found.results}, {"a": "modified", "new": "added", "x\ufffd": "removed"})
        self.assertIn("-1\n+2\n", next(line["diff"] for line in found.results if line["path"] == "a"))
        second = box.checkpoint(automatic=True, exclude=["log"])
        self.assertEqual([c["id"] for c in box.checkpoints()], [first["id"], second["id"]])
        self.assertTrue(box.checkpoints()[1]["automatic"])
        self.assertEqual(len(box.diff(first["id"], second["id"]).results), 3)
        box.restore(first["id"], ["a"])
        self.assertEqual((box.read("a"), box.read("new")), (b"1\n", b"2\n"))
        done = box.restore(first["id"])
        self.assertEqual((done["kept"], box.read("log")), ([], b"2\n"))
        with self.assertRaises(errors.NotExistError):
            box.read("new")
        box.restore(done["before"]["id"])
        self.assertEqual(box.read("new"), b"2\n")
        box.remove_checkpoint(second["id"])
        for act in [box.remove_checkpoint, box.restore, box.diff, lambda id: next(box.export_checkpoint(id))]:
            with self.assertRaises(errors.NotExistError):
                act(second["id"])

    def test_come_and_go_as_files(self):
        self.sandbox.exec("head -c 3000000 /dev/urandom > large; echo 1 > a")
        point = self.sandbox.checkpoint()["id"]
        file = b"".join(self.sandbox.export_checkpoint(point))
        for given in [file, io.BytesIO(file), self.sandbox.export_checkpoint(point)]:
            other = self.made(Gateway())
            self.assertEqual(other.import_checkpoint(given)["id"], point)
            other.restore(point)
            self.assertEqual(other.read("large"), self.sandbox.read("large"))
        with self.assertRaises(errors.ChecksumError):
            other.import_checkpoint(file[:-1])
        with self.assertRaises(errors.InvalidError):
            other.import_checkpoint(iter([b"no ", b"file"]))

    def test_a_file_that_is_cut_off_is_an_error(self):
        before = Breaking()
        self.addCleanup(before.close)
        self.sandbox.exec("head -c 300000 /dev/urandom > a")
        point = self.sandbox.checkpoint()["id"]
        with self.assertRaises(CutError):
            b"".join(Gateway(before.url).attach(self.sandbox.id).export_checkpoint(point))
