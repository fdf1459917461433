"""What a backend of deepagents gives, where deepagents is not installed: the same names and fields."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass
from typing import Any


@dataclass
class ExecuteResponse:
    output: str
    exit_code: int | None = None
    truncated: bool = False


@dataclass
class FileDownloadResponse:
    path: str
    content: bytes | None = None
    error: str | None = None


@dataclass
class FileUploadResponse:
    path: str
    error: str | None = None


@dataclass
class ReadResult:
    error: str | None = None
    file_data: dict[str, Any] | None = None
    total_lines: int | None = None
    start_line: int | None = None
    end_line: int | None = None
    next_offset: int | None = None


@dataclass
class WriteResult:
    error: str | None = None
    path: str | None = None


@dataclass
class EditResult:
    error: str | None = None
    path: str | None = None
    occurrences: int | None = None


@dataclass
class DeleteResult:
    error: str | None = None
    path: str | None = None


@dataclass
class LsResult:
    error: str | None = None
    entries: list[dict[str, Any]] | None = None


@dataclass
class GrepResult:
    error: str | None = None
    matches: list[dict[str, Any]] | None = None
    truncated: bool = False


@dataclass
class GlobResult:
    error: str | None = None
    matches: list[dict[str, Any]] | None = None
    truncated: bool = False


def _asynchronous(name: str) -> Any:
    async def call(self: Any, *args: Any, **kwargs: Any) -> Any:
        return await asyncio.to_thread(getattr(self, name), *args, **kwargs)

    call.__name__ = "a" + name
    call.__doc__ = f"Does what {name} does, in a thread."
    return call


class SandboxBackendProtocol:
    """The asynchronous methods, by the others."""

    aexecute = _asynchronous("execute")
    als = _asynchronous("ls")
    aread = _asynchronous("read")
    awrite = _asynchronous("write")
    aedit = _asynchronous("edit")
    adelete = _asynchronous("delete")
    agrep = _asynchronous("grep")
    aglob = _asynchronous("glob")
    aupload_files = _asynchronous("upload_files")
    adownload_files = _asynchronous("download_files")
