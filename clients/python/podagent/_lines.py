"""Windows of lines."""

from __future__ import annotations

import codecs
from collections.abc import Iterator
from dataclasses import dataclass

_WINDOW_LIMIT = 10 << 20  # bytes
_COUNT_LIMIT = 1 << 20  # bytes up to which lines after the window are counted


class FileError(Exception):
    """What a model is told about a file."""


@dataclass
class Window:
    """Lines of a text. The fields are those of deepagents."""

    content: str = ""
    total_lines: int | None = None
    start_line: int | None = None
    end_line: int | None = None
    next_offset: int | None = None

    def fields(self) -> dict[str, int | None]:
        """Returns where the lines are."""
        return {name: value for name, value in vars(self).items() if name != "content"}


def window_of(parts: Iterator[bytes], offset: int, limit: int) -> Window | None:
    """Reads limit lines from the 0-based offset on, and no more of a large file than it must; None of what is no text."""
    lines = _Lines(max(0, offset), max(0, offset) + max(0, limit))
    try:
        for part in parts:
            lines.add(part)
            if lines.read > _COUNT_LIMIT and lines.beyond():
                return lines.window(whole=False)
        lines.end()
    except UnicodeDecodeError:
        return None
    return lines.window(whole=True)


class _Lines:
    """Takes the lines of a window out of a text."""

    def __init__(self, first: int, last: int) -> None:
        self.read = 0  # bytes
        self._first = first
        self._last = last  # the line after the window
        self._decoder = codecs.getincrementaldecoder("utf-8")()
        self._lines: list[str] = []
        self._begun: list[str] = []  # the parts of a line of the window that has no end yet
        self._size = 0  # of the window
        self._line = 0  # the line that is being read
        self._open = False  # it has begun

    def beyond(self) -> bool:
        """Reports whether there is something after the window."""
        return self._line > self._last or self._line == self._last and self._open

    def add(self, part: bytes) -> None:
        self.read += len(part)
        if b"\0" in part:
            raise UnicodeDecodeError("utf-8", part, 0, 1, "binary")
        self._text(self._decoder.decode(part))

    def end(self) -> None:
        self._text(self._decoder.decode(b"", final=True))
        if self._open:
            self._end_line()

    def window(self, *, whole: bool) -> Window:
        window = Window("\n".join(self._lines))
        if self._lines:
            window.start_line = self._first + 1
            window.end_line = self._first + len(self._lines)
            window.total_lines = self._line if whole else None
            if not whole or window.end_line < self._line:
                window.next_offset = window.end_line
        return window

    def _text(self, text: str) -> None:
        *ended, rest = text.split("\n")
        for line in ended:
            self._take(line)
            self._end_line()
        if rest:
            self._take(rest)

    def _take(self, text: str) -> None:
        self._open = True
        if not self._first <= self._line < self._last:
            return
        self._size += len(text)
        if self._size > _WINDOW_LIMIT:
            raise FileError(f"These lines are too long to read: they have more than {_WINDOW_LIMIT} bytes")
        self._begun.append(text)

    def _end_line(self) -> None:
        if self._first <= self._line < self._last:
            self._lines.append("".join(self._begun))
        self._begun = []
        self._open = False
        self._line += 1
