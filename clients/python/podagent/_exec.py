"""Commands, whose output goes on at its offsets when an answer is cut off."""

from __future__ import annotations

import base64
import os
import threading
import time
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from ._connection import Call, Connection
from .errors import CutError, PodagentError, ProblemError, UnreachableError

_INPUT_LIMIT = 1 << 20  # bytes of a request


@dataclass(frozen=True)
class Exit:
    """How a command ended."""

    exec_id: str
    reason: str
    """exited, signalled, timed out, out of memory, or agent lost."""
    code: int
    """The exit code; 128 + N for signal N; -1 if the agent was lost."""
    signal: int
    """The number of the signal that ended it, or 0."""
    wall_ms: int


@dataclass(frozen=True)
class Started:
    """A command has started."""

    exec_id: str


@dataclass(frozen=True)
class Part:
    """A part of a command's output."""

    stream: str
    """stdout or stderr."""
    offset: int
    """Where it begins in the stream, in bytes."""
    data: bytes


Event = Started | Part | Exit
"""What a command does. An Exit is the last."""


@dataclass(frozen=True)
class Result:
    """How a command ended, with the end of its output."""

    exit: Exit
    stdout: str
    stderr: str
    stdout_omitted: int
    """How many bytes are missing before stdout."""
    stderr_omitted: int

    @property
    def code(self) -> int:
        """The exit code."""
        return self.exit.code


def body_of(command: str | list[str], dir: str | None, env: Mapping[str, str] | None, timeout: float | None) -> dict[str, Any]:
    """Returns the body of an exec. A string is a script for bash."""
    body: dict[str, Any] = {"script": command} if isinstance(command, str) else {"args": command}
    if dir is not None:
        body["dir"] = dir
    if env:
        body["env"] = [f"{name}={value}" for name, value in env.items()]
    if timeout:
        body["timeout_seconds"] = timeout
    return body


def new_key() -> str:
    """Makes an Idempotency-Key for a command: a UUID of version 7, whose time tells how long a repetition may come."""
    data = bytearray((time.time_ns() // 1_000_000).to_bytes(6, "big") + os.urandom(10))
    data[6] = data[6] & 0x0F | 0x70
    data[8] = data[8] & 0x3F | 0x80
    text = data.hex()
    return "-".join((text[:8], text[8:12], text[12:16], text[16:20], text[20:]))


class Output:
    """The output of one command."""

    def __init__(self, connection: Connection, root: str, exec_id: str | None = None, stdout: int = 0, stderr: int = 0) -> None:
        """Follows a command of the sandbox at root, from the offsets on."""
        self._connection = connection
        self._root = root
        self._exec_id = exec_id
        self._at = {"stdout": stdout, "stderr": stderr}
        self._told = False
        self._pause = 0.0
        self._give_up = 0.0
        self._feeding: threading.Thread | None = None

    def run(self, body: dict[str, Any], stdin: bytes | None) -> Iterator[Event]:
        """Starts a command, and yields what it does. If the reader leaves before the end, the command ends."""
        if stdin is not None:
            body = body | {"stdin": base64.b64encode(stdin).decode()}
        start = Call(json=body, headers={"Idempotency-Key": new_key()}, accept="application/jsonl", repeatable=True)
        ended = False
        try:
            for event in self.follow(start, stdin):
                ended = isinstance(event, Exit)
                yield event
        finally:
            if not ended and self._exec_id:
                self._kill()

    def follow(self, start: Call | None = None, stdin: bytes | None = None) -> Iterator[Event]:
        """Reads answers until one tells the end."""
        while True:
            try:
                lines = self._open(start)
                for line in lines:
                    self._pause = 0.0
                    if line["type"] == "reconnect":
                        break
                    event = self._event_of(line)
                    if isinstance(event, Exit):
                        _drain(lines)
                        yield event
                        return
                    if event is not None:
                        yield event
            except PodagentError as error:
                if not self._may_go_on(error):
                    raise
            self._rest()
            if stdin is not None and self._exec_id and not (self._feeding and self._feeding.is_alive()):
                # Beside the output: the command may read its input late, or never.
                self._feeding = threading.Thread(target=self._finish_stdin, args=(stdin,), daemon=True)
                self._feeding.start()

    def _open(self, start: Call | None) -> Iterator[Any]:
        if self._exec_id is None:
            return self._connection.send("POST", f"{self._root}/exec", start).lines()
        query = {"stdout_offset": self._at["stdout"], "stderr_offset": self._at["stderr"], "follow": True}
        return self._connection.send("GET", f"{self._root}/processes/{self._exec_id}/output", Call(query=query)).lines()

    def _event_of(self, line: dict[str, Any]) -> Event | None:
        """Returns what a line tells that is new."""
        match line["type"]:
            case "start":
                known, self._told = self._told, True
                self._exec_id = line["exec_id"]
                return None if known else Started(line["exec_id"])
            case "stdout" | "stderr":
                return self._part(line)
            case "exit":
                e = line["exit"]
                return Exit(e["exec_id"], e["reason"], e["code"], e.get("signal", 0), e.get("wall_ms", 0))
        return None

    def _part(self, line: dict[str, Any]) -> Part | None:
        """Leaves out what came before, of a command that was started again by the same key."""
        data = base64.b64decode(line["data_base64"]) if "data_base64" in line else line.get("data", "").encode()
        stream, offset = line["type"], line.get("offset", 0)
        known = max(0, self._at[stream] - offset)
        if known >= len(data):
            return None
        self._at[stream] = offset + len(data)
        return Part(stream, offset + known, data[known:])

    def _may_go_on(self, error: PodagentError) -> bool:
        """Reports whether the command runs on though its output broke off."""
        if isinstance(error, ProblemError) and error.problem.get("exec_id"):
            self._exec_id = error.problem["exec_id"]
            return True
        return isinstance(error, CutError) or isinstance(error, ProblemError) and error.kind in ("cut", "stalled")

    def _rest(self) -> None:
        """Waits before the next try, longer each time, unless something has come since the last one."""
        if self._pause == 0:
            self._give_up = time.monotonic() + self._connection.patience
        else:
            time.sleep(self._pause)
        if time.monotonic() > self._give_up:
            raise UnreachableError("the output of the command breaks off again and again")
        self._pause = min(2 * self._pause or 0.1, 2.0)

    def _finish_stdin(self, stdin: bytes) -> None:
        try:
            Input(self._connection, self._root, self._exec_id or "").send(stdin, end=True)
        except PodagentError:
            pass  # it has taken what it wants, or the next try sends the rest

    def _kill(self) -> None:
        try:
            path = f"{self._root}/processes/{self._exec_id}/signal"
            self._connection.json("POST", path, Call(json={"signal": 9}, repeatable=True, patience=10))
        except PodagentError:
            pass  # it has ended, or nobody can be told


def _drain(lines: Iterator[Any]) -> None:
    """Reads the end of an answer, so that its connection is kept."""
    try:
        for _ in lines:
            pass
    except CutError:
        pass  # all that matters has come


class Input:
    """The standard input of a command that was started with open input."""

    def __init__(self, connection: Connection, root: str, exec_id: str) -> None:
        """Begins at the first byte."""
        self._connection = connection
        self._path = f"{root}/processes/{exec_id}/stdin"
        self._taken = 0

    def send(self, data: bytes, end: bool = False) -> None:
        """Sends bytes, after those that were sent before, and returns when the command has taken them."""
        at = 0
        while True:
            part = data[at : at + _INPUT_LIMIT]
            last = at + len(part) == len(data)
            if part or last and end:
                query = {"offset": self._taken, "end": True if last and end else None}
                self._connection.json("PUT", self._path, Call(query=query, body=part))
            self._taken += len(part)
            at += len(part)
            if last:
                return


class Tail:
    """Keeps the last bytes of an output."""

    def __init__(self, limit: int) -> None:
        """Keeps so many bytes."""
        self._limit = limit
        self._kept = bytearray()
        self.omitted = 0

    def add(self, offset: int, data: bytes) -> None:
        """Adds a part, and notes what is missing before it."""
        self.omitted = max(self.omitted, offset - len(self._kept))
        self._kept += data
        drop = max(0, len(self._kept) - self._limit)
        del self._kept[:drop]
        self.omitted += drop

    def bytes(self) -> bytes:
        """What is kept."""
        return bytes(self._kept)

    def text(self) -> str:
        """What is kept, as text."""
        return self._kept.decode(errors="replace")
