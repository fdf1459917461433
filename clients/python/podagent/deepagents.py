"""A backend for deepagents: its SandboxBackendProtocol, over a gateway.

Files are read, searched and changed by the gateway's own operations; only execute runs a shell. Without deepagents
the results are dataclasses with the same fields.

What fails because of a file is a result, for the model. What fails because of the sandbox or the way to it is raised.
"""

from __future__ import annotations

import base64
from collections.abc import Callable, Iterable, Mapping
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from typing import Any, TypeVar

from . import errors
from ._exec import Exit, Part, Tail
from ._lines import FileError, window_of
from .gateway import Gateway
from .sandbox import Sandbox

try:
    from deepagents.backends.protocol import (  # type: ignore[import-not-found]
        DeleteResult,
        EditResult,
        ExecuteResponse,
        FileDownloadResponse,
        FileUploadResponse,
        GlobResult,
        GrepResult,
        LsResult,
        ReadResult,
        SandboxBackendProtocol,
        WriteResult,
    )
except ImportError:
    from ._protocol import (
        DeleteResult,
        EditResult,
        ExecuteResponse,
        FileDownloadResponse,
        FileUploadResponse,
        GlobResult,
        GrepResult,
        LsResult,
        ReadResult,
        SandboxBackendProtocol,
        WriteResult,
    )

__all__ = ["SandboxBackend"]

_SEARCH_LIMIT = 10_000  # results
_AT_ONCE = 8  # files
# What the kernel makes up is not searched from the root, where a search would never end.
_MADE_UP = ("/proc/", "/sys/", "/dev/")

T = TypeVar("T")
R = TypeVar("R")


class SandboxBackend(SandboxBackendProtocol):
    """A sandbox as a backend of deepagents."""

    sandbox: Sandbox
    """The sandbox, for what the backend has no method for."""

    def __init__(self, sandbox: Sandbox, *, timeout: float = 1800, max_output: int = 1 << 20) -> None:
        """Takes a sandbox that is there.

        After timeout seconds a command is ended that has no timeout of its own; 0 means never. Of its output the
        beginning and the end are given, max_output bytes in all.
        """
        self.sandbox = sandbox
        self._timeout = timeout
        self._max_output = max_output
        self._workdir = sandbox.workdir
        self._running = True

    @classmethod
    def create(
        cls,
        gateway: Gateway | None = None,
        *,
        initial_files: Mapping[str, str | bytes] | None = None,
        timeout: float = 1800,
        max_output: int = 1 << 20,
        **options: Any,
    ) -> SandboxBackend:
        """Makes a sandbox, or gets the one that has the id, and writes the initial files. The options are those of Gateway.create."""
        backend = cls((gateway or Gateway()).create(**options), timeout=timeout, max_output=max_output)
        try:
            _in_parallel((initial_files or {}).items(), lambda file: backend.sandbox.write(*file))
        except errors.PodagentError:
            if options.get("id") is None:
                with suppress(errors.PodagentError):
                    backend.close()
            raise
        return backend

    @property
    def id(self) -> str:
        """The sandbox's name."""
        return self.sandbox.id

    @property
    def is_running(self) -> bool:
        """Whether close has yet to be called."""
        return self._running

    def close(self) -> None:
        """Ends the sandbox, and removes it with its files."""
        if self._running:
            self._running = False
            self.sandbox.delete()

    def execute(self, command: str, *, timeout: float | None = None) -> ExecuteResponse:
        """Runs a shell command in the workdir. Standard output and standard error are one, in their order."""
        timeout = self._timeout if timeout is None else timeout
        output = _Ends(self._max_output)
        # On the first line, so that the lines that bash names in its messages are right.
        for event in self.sandbox.stream("exec 2>&1; " + command, timeout=timeout):
            if isinstance(event, Part):
                output.add(event.data)
            elif isinstance(event, Exit):
                note = {
                    "timed out": f"\n[The command was ended after {timeout:g} s]\n",
                    "out of memory": "\n[The command was ended because memory ran out]\n",
                }.get(event.reason, "")
                return ExecuteResponse(output.text() + note, event.code if event.code >= 0 else None, output.omitted > 0)
        raise errors.CutError("the output of a command has no end")

    def ls(self, path: str) -> LsResult:
        """Lists a directory."""
        try:
            return LsResult(entries=_in_parallel(self.sandbox.list(path).results, self._info_of))
        except errors.ProblemError as error:
            return LsResult(error=_message_of(error, path))

    def read(self, file_path: str, offset: int = 0, limit: int = 2000) -> ReadResult:
        """Reads lines of a text, from the 0-based offset on, or the whole of a file that is no text."""
        try:
            window = window_of(self.sandbox.read_parts(file_path), offset, limit)
            if window is None:
                return self._read_binary(file_path)
            return ReadResult(file_data={"content": window.content, "encoding": "utf-8"}, **window.fields())
        except (errors.ProblemError, FileError) as error:
            return ReadResult(error=_message_of(error, file_path))

    def write(self, file_path: str, content: str) -> WriteResult:
        """Makes or replaces a file."""
        try:
            self.sandbox.write(file_path, content)
            return WriteResult(path=file_path)
        except errors.ProblemError as error:
            return WriteResult(error=_message_of(error, file_path))

    def edit(self, file_path: str, old_string: str, new_string: str, replace_all: bool = False) -> EditResult:
        """Replaces a text, which must be there exactly once unless all are to be replaced."""
        try:
            return EditResult(path=file_path, occurrences=self._replace(file_path, old_string, new_string, replace_all))
        except (errors.ProblemError, FileError) as error:
            return EditResult(error=_message_of(error, file_path))

    def delete(self, file_path: str) -> DeleteResult:
        """Removes a file, or a directory with all that is in it."""
        try:
            self.sandbox.stat(file_path)  # which tells that there is none; a removal would not
            self.sandbox.remove(file_path, recursive=True)
            return DeleteResult(path=file_path)
        except errors.ProblemError as error:
            return DeleteResult(error=_message_of(error, file_path))

    def grep(self, pattern: str, path: str | None = None, glob: str | None = None, *, max_count: int | None = None) -> GrepResult:
        """Finds a text in files. With path missing it searches the workdir."""
        where = path or self._root()
        options: dict[str, Any] = {"paths": [where], "fixed": True, "hidden": True, "no_ignore": True, "sort": True}
        options["limit"] = _SEARCH_LIMIT if max_count is None else max_count
        if glob:
            options["include"] = [glob]
        if where == "/":
            options["exclude"] = list(_MADE_UP)
        try:
            found = self.sandbox.grep(pattern, **options)
        except errors.ProblemError as error:
            return GrepResult(error=_message_of(error, where))
        matches = [{"path": line["path"], "line": line["line"], "text": line["text"]} for line in found.results]
        return GrepResult(matches=matches, truncated=found.truncated)

    def glob(self, pattern: str, path: str | None = None) -> GlobResult:
        """Finds files by a pattern; one without a slash is of names at any depth. The paths are absolute."""
        where = path or self._root()
        rooted = pattern.startswith("/")
        below = pattern.lstrip("/") if rooted else pattern if "/" in pattern else "**/" + pattern
        try:
            # A name that is hidden counts only if the pattern says so, but one without a slash may be below it.
            found = self.sandbox.glob(below, dir=where, limit=_SEARCH_LIMIT, no_hidden=rooted or "/" in pattern)
        except errors.ProblemError as error:
            return GlobResult(error=_message_of(error, where))
        top = where.rstrip("/") + "/"
        matches = []
        for match in found.results:
            full = top + match["path"]
            hidden = full.rsplit("/", 1)[1].startswith(".") and not pattern.rsplit("/", 1)[-1].startswith(".")
            if match["type"] != "directory" and not hidden and not (where == "/" and full.startswith(_MADE_UP)):
                matches.append({"path": full, "is_dir": False})
        return GlobResult(matches=matches, truncated=found.truncated)

    def upload_files(self, files: list[tuple[str, bytes]]) -> list[FileUploadResponse]:
        """Writes files as they are. A result tells of each, in their order."""

        def upload(file: tuple[str, bytes]) -> FileUploadResponse:
            path, content = file
            try:
                _must_be_absolute(path)
                self.sandbox.write(path, content)
                return FileUploadResponse(path=path, error=None)
            except (errors.ProblemError, FileError) as error:
                return FileUploadResponse(path=path, error=_operation_error(error))

        return _in_parallel(files, upload)

    def download_files(self, paths: list[str]) -> list[FileDownloadResponse]:
        """Reads files as they are. A result has each, in their order."""

        def download(path: str) -> FileDownloadResponse:
            try:
                _must_be_absolute(path)
                return FileDownloadResponse(path=path, content=self.sandbox.read(path), error=None)
            except (errors.ProblemError, FileError) as error:
                return FileDownloadResponse(path=path, content=None, error=_operation_error(error))

        return _in_parallel(paths, download)

    def _root(self) -> str:
        if self._workdir is None:
            self._workdir = self.sandbox.info().get("workdir") or "/"
        return self._workdir

    def _info_of(self, entry: dict[str, Any]) -> dict[str, Any]:
        """Describes an entry of a list: a link as what it leads to."""
        of = entry
        if entry["type"] == "symlink":
            try:
                of = self.sandbox.stat(entry["path"], follow=True)
            except errors.NotExistError:
                pass  # it leads nowhere
        return {"path": entry["path"], "is_dir": of["type"] == "directory", "size": of["size"], "modified_at": of["mtime"]}

    def _read_binary(self, path: str) -> ReadResult:
        size = self.sandbox.stat(path, follow=True)["size"]
        if size > 10 << 20:
            raise FileError(f"'{path}' is too large to read: it has {size} bytes, and {10 << 20} is the most")
        return ReadResult(file_data={"content": base64.b64encode(self.sandbox.read(path)).decode(), "encoding": "base64"})

    def _replace(self, path: str, old: str, new: str, all: bool) -> int:
        if old == "":
            return self._fill_empty(path, new)
        if old != new:
            return self.sandbox.edit(path, old, new, all=all)
        if old not in self.sandbox.read(path).decode(errors="replace"):
            raise FileError(f"String not found in file '{path}'")
        return 1

    def _fill_empty(self, path: str, content: str) -> int:
        """An edit of nothing makes the content of an empty file."""
        stat = self.sandbox.stat(path, follow=True)
        if stat["size"] > 0:
            raise FileError("The old string must not be empty unless the file is")
        if content == "":
            return 0
        self.sandbox.write(path, content, if_match=stat.get("etag"))
        return 1


_FILE_CLASSES = (
    errors.NotExistError, errors.ExistError, errors.PermissionError, errors.IsDirectoryError, errors.NotDirectoryError, errors.NotEmptyError,
    errors.NotRegularError, errors.ReadOnlyError, errors.NoSpaceError, errors.QuotaError, errors.TooLargeError, errors.BusyError,
    errors.NameTooLongError, errors.LoopError, errors.CrossDeviceError, errors.ChangedError, errors.EditError, errors.PatternError,
    errors.ProtectedError, errors.InvalidError, errors.IoError,
)  # fmt: skip


def _message_of(error: errors.ProblemError | FileError, path: str) -> str:
    """Says what is wrong with a file. Other errors are raised again."""
    if isinstance(error, FileError):
        return str(error)
    if not isinstance(error, _FILE_CLASSES):
        raise error
    if isinstance(error, errors.NotExistError):
        return f"File '{path}' not found"
    if isinstance(error, errors.EditError):
        if "not found" in error.detail:
            return f"String not found in file '{path}': {error.detail}"
        return f"Multiple occurrences in '{path}': {error.detail}. Replace all, or give more of the text around it"
    return f"{error.detail}: '{path}'"


def _must_be_absolute(path: str) -> None:
    if not path.startswith("/"):
        raise FileError("invalid_path")


def _operation_error(error: errors.ProblemError | FileError) -> str:
    """Names a failure of an upload or a download in deepagents' words."""
    match error:
        case errors.NotExistError():
            return "file_not_found"
        case errors.PermissionError() | errors.ReadOnlyError() | errors.ProtectedError():
            return "permission_denied"
        case errors.IsDirectoryError():
            return "is_directory"
        case FileError() | errors.InvalidError() | errors.NameTooLongError() | errors.NotDirectoryError() | errors.LoopError() | errors.NotRegularError():
            return "invalid_path"
    raise error


class _Ends:
    """The beginning and the end of an output."""

    def __init__(self, limit: int) -> None:
        self._head = bytearray()
        self._limit = limit - limit // 2
        self._tail = Tail(limit // 2)
        self._offset = 0  # of the end

    @property
    def omitted(self) -> int:
        return self._tail.omitted

    def add(self, data: bytes) -> None:
        room = self._limit - len(self._head)
        self._head += data[:room]
        rest = data[room:]
        if rest:
            self._tail.add(self._offset, rest)
            self._offset += len(rest)

    def text(self) -> str:
        if not self.omitted:
            return (bytes(self._head) + self._tail.bytes()).decode(errors="replace")
        return f"{self._head.decode(errors='replace')}\n[{self.omitted} bytes are left out here]\n{self._tail.text()}"


def _in_parallel(items: Iterable[T], act: Callable[[T], R]) -> list[R]:
    """Does the same to all items, to some at once, and returns what comes of them in their order."""
    items = list(items)
    if len(items) < 2:
        return [act(item) for item in items]
    with ThreadPoolExecutor(min(_AT_ONCE, len(items))) as pool:
        return list(pool.map(act, items))
