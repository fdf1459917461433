"""A sandbox: its files and its commands."""

from __future__ import annotations

import base64
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any
from urllib.parse import quote

from ._connection import Call, Connection
from ._exec import Event, Exit, Input, Output, Part, Result, Tail, body_of, new_key
from .errors import CutError


@dataclass
class Found:
    """The results of a search or a comparison."""

    results: list[dict[str, Any]]
    truncated: bool = False
    """There are more."""
    skipped: list[str] = field(default_factory=list)
    """What could not be read, and why."""


class Sandbox:
    """A sandbox. Relative paths start in its workdir. A call that works in a sandbox that sleeps wakes it first."""

    id: str
    """The sandbox's name, unique among the tenant's."""
    workdir: str | None
    """Where relative paths start and commands run, if that was known when it was made or attached to."""

    def __init__(self, connection: Connection, info: dict[str, Any]) -> None:
        """Gateways make it."""
        self.id = info["id"]
        self.workdir = info.get("workdir")
        self._connection = connection
        self._root = f"/api/v1/sandboxes/{quote(self.id, safe='')}"

    def info(self) -> dict[str, Any]:
        """Describes the sandbox as it is now. This does not wake it."""
        return self._connection.json("GET", self._root)

    def delete(self) -> None:
        """Ends the sandbox, and removes it with its files."""
        self._connection.json("DELETE", self._root)

    def pause(self) -> None:
        """Ends its pod, and keeps its files, if it was made to keep them."""
        self._connection.json("POST", f"{self._root}/pause")

    def resume(self) -> dict[str, Any]:
        """Gives a paused sandbox a pod."""
        return self._connection.json("POST", f"{self._root}/resume", Call(repeatable=True))

    def read(self, path: str) -> bytes:
        """Reads a file as a whole."""
        return self._connection.send_whole("GET", f"{self._root}/files", Call(query={"path": path}))

    def read_parts(self, path: str) -> Iterator[bytes]:
        """Yields the content of a file as it comes."""
        yield from self._connection.send("GET", f"{self._root}/files", Call(query={"path": path})).parts()

    def write(
        self, path: str, content: str | bytes, *, mode: str | None = None, if_match: str | None = None, if_none_match: str | None = None
    ) -> None:
        """Makes or replaces a file, as a whole or not at all, with the directories that are missing.

        if_match is the etag that the file must have; if_none_match "*" says that there must be none.
        """
        call = Call(
            query={"path": path, "mode": mode, "parents": True},
            headers={"If-Match": if_match, "If-None-Match": if_none_match},
            body=content.encode() if isinstance(content, str) else content,
            repeatable=if_match is None and if_none_match is None,
        )
        self._connection.send("PUT", f"{self._root}/files", call).read()

    def edit(self, path: str, old: str, new: str, *, all: bool = False) -> int:
        """Replaces a text, which must be there exactly once unless all are to be, and returns how often."""
        body = {"path": path, "edits": [{"old": old, "new": new, "all": all}]}
        return self._connection.json("POST", f"{self._root}/files/edit", Call(json=body))["occurrences"][0]

    def stat(self, path: str, *, follow: bool = False) -> dict[str, Any]:
        """Describes a file; with follow what a symbolic link leads to."""
        return self._connection.json("GET", f"{self._root}/files/stat", Call(query={"path": path, "follow": follow}))

    def list(self, path: str, *, recursive: bool = False) -> Found:
        """Lists a directory, up to 10000 entries."""
        page = self._connection.json("GET", f"{self._root}/files/list", Call(query={"path": path, "recursive": recursive}))
        for entry in page["entries"]:
            entry.setdefault("path", _text(entry, "path"))
        return Found(page["entries"], page["truncated"])

    def mkdir(self, path: str) -> None:
        """Makes a directory, with those above it; it may be there."""
        self._connection.json("POST", f"{self._root}/files/mkdir", Call(json={"path": path, "parents": True}, repeatable=True))

    def move(self, source: str, to: str, *, replace: bool = False) -> None:
        """Renames a file or a directory."""
        self._connection.json("POST", f"{self._root}/files/move", Call(json={"from": source, "to": to, "replace": replace}))

    def remove(self, path: str, *, recursive: bool = False) -> None:
        """Removes a file; with recursive a directory with all that is in it."""
        self._connection.json("DELETE", f"{self._root}/files", Call(query={"path": path, "recursive": recursive}, repeatable=False))

    def glob(self, pattern: str, **options: Any) -> Found:
        """Finds files by their names. The options are those of glob in openapi.json, such as dir and limit."""
        return self._search("GET", "/glob", Call(query={"pattern": pattern, **options}))

    def grep(self, pattern: str, **options: Any) -> Found:
        """Finds lines in files. The options are those of grep in openapi.json, such as fixed, paths and include."""
        return self._search("POST", "/grep", Call(json={"pattern": pattern, **options}, repeatable=True))

    def checkpoint(self, name: str | None = None, *, automatic: bool = False, exclude: Sequence[str] = ()) -> dict[str, Any]:
        """Keeps the state of the files in the workdir, and describes it as create-checkpoint in openapi.json does.

        Its id is to be kept. A checkpoint that a program makes at each step is automatic: it goes with those without
        a name. exclude are globs of files that it does not have, and that a restore leaves alone.
        """
        body = {"automatic": automatic, "exclude": [*exclude]} | ({} if name is None else {"name": name})
        return self._connection.json("POST", f"{self._root}/checkpoints", Call(json=body))

    def checkpoints(self) -> Sequence[dict[str, Any]]:
        """Lists the checkpoints, the oldest first."""
        return self._connection.json("GET", f"{self._root}/checkpoints")["checkpoints"]

    def diff(self, checkpoint: str, to: str | None = None, *, text: bool = False) -> Found:
        """Finds how the files differ from a checkpoint: as they are now, or as they are in the checkpoint to.

        Each result has a path, and how: added, removed, modified, retyped, unreadable, or changed, which is another mode, owner
        or time alone. With text, it has a unified diff, or no_diff, which says why there is none.
        """
        return self._search("GET", self._checkpoint(checkpoint) + "/diff", Call(query={"to": to, "text": text}), "path", "diff")

    def restore(self, checkpoint: str, paths: Sequence[str] = ()) -> dict[str, Any]:
        """Makes the files what they were in a checkpoint, or only some paths, each with all that is below it.

        Of what it returns, before is a checkpoint that undoes this, and kept says what is not as in the checkpoint.
        Once it has begun to change files, it goes on if the connection breaks.
        """
        return self._connection.json("POST", self._root + self._checkpoint(checkpoint) + "/restore", Call(json={"paths": [*paths]}))

    def remove_checkpoint(self, checkpoint: str) -> None:
        """Removes a checkpoint, and what only it has. The files in the workdir stay."""
        self._connection.json("DELETE", self._root + self._checkpoint(checkpoint), Call(repeatable=False))

    def export_checkpoint(self, checkpoint: str) -> Iterator[bytes]:
        """Yields a checkpoint as one file, as it comes."""
        yield from self._connection.send("GET", self._root + self._checkpoint(checkpoint) + "/export").parts()

    def import_checkpoint(self, file: bytes | Iterable[bytes]) -> dict[str, Any]:
        """Gets a checkpoint from a file that was exported, and describes it.

        file is its content, a file that is open for reading bytes, or what export_checkpoint of another sandbox
        yields. The files in the workdir stay as they are until a restore.
        """
        call = Call(body=file, repeatable=isinstance(file, bytes))
        return self._connection.json("POST", f"{self._root}/checkpoints/import", call)

    def exec(
        self,
        command: str | list[str],
        *,
        dir: str | None = None,
        env: Mapping[str, str] | None = None,
        stdin: str | bytes | None = None,
        timeout: float | None = None,
        max_output: int = 1 << 20,
    ) -> Result:
        """Runs a command, and returns how it ended, whatever its exit code.

        A string is a script for bash, a list a command without a shell. After timeout seconds it is ended, with
        all that it started. Of each output the last max_output bytes are kept. stdin has up to 3 MiB: more goes by
        start and input.
        """
        outputs = {"stdout": Tail(max_output), "stderr": Tail(max_output)}
        for event in self.stream(command, dir=dir, env=env, stdin=stdin, timeout=timeout):
            if isinstance(event, Part):
                outputs[event.stream].add(event.offset, event.data)
            elif isinstance(event, Exit):
                out, err = outputs["stdout"], outputs["stderr"]
                return Result(event, out.text(), err.text(), out.omitted, err.omitted)
        raise CutError("the output of a command has no end")

    def stream(
        self,
        command: str | list[str],
        *,
        dir: str | None = None,
        env: Mapping[str, str] | None = None,
        stdin: str | bytes | None = None,
        timeout: float | None = None,
    ) -> Iterator[Event]:
        """Runs a command, and yields its output as it comes.

        If the connection is lost, it goes on where it was, without a byte lost or doubled. Who leaves before the
        exit ends the command.
        """
        data = stdin.encode() if isinstance(stdin, str) else stdin
        return Output(self._connection, self._root).run(body_of(command, dir, env, timeout), data)

    def start(
        self,
        command: str | list[str],
        *,
        dir: str | None = None,
        env: Mapping[str, str] | None = None,
        timeout: float | None = None,
        open_stdin: bool = False,
    ) -> str:
        """Starts a command that runs on, and returns its exec id. With open_stdin, its input comes by input()."""
        body = body_of(command, dir, env, timeout) | {"detach": True, "open_stdin": open_stdin}
        call = Call(json=body, headers={"Idempotency-Key": new_key()}, repeatable=True)
        return self._connection.json("POST", f"{self._root}/exec", call)["exec_id"]

    def output(self, exec_id: str, *, stdout: int = 0, stderr: int = 0) -> Iterator[Event]:
        """Yields the output of a command that runs, or has run, from offsets on up to its end. Who leaves lets it run."""
        return Output(self._connection, self._root, exec_id, stdout, stderr).follow()

    def input(self, exec_id: str) -> Input:
        """The standard input of a command that was started with open input, from its beginning."""
        return Input(self._connection, self._root, exec_id)

    def signal(self, exec_id: str, signal: int) -> None:
        """Sends a signal, by its number on Linux, to a command and all that it started."""
        self._connection.json("POST", f"{self._root}/processes/{quote(exec_id, safe='')}/signal", Call(json={"signal": signal}))

    @staticmethod
    def _checkpoint(id: str) -> str:
        return f"/checkpoints/{quote(id, safe='')}"

    def _search(self, method: str, path: str, call: Call, *texts: str) -> Found:
        results: list[dict[str, Any]] = []
        found = None
        for line in self._connection.send(method, self._root + path, call).lines():
            if line["type"] == "end":
                found = Found(results, line.get("truncated", False), line.get("skipped", []))
                continue
            for name in texts or ("path", "text"):
                line[name] = _text(line, name)
            results.append(line)
        if found is None:
            raise CutError("the answer was cut off")
        return found


def _text(line: dict[str, Any], name: str) -> str:
    """Returns a text of an answer. What is not UTF-8 has replacement characters."""
    other = line.get(name + "_base64")
    return line.get(name, "") if other is None else base64.b64decode(other).decode(errors="replace")
