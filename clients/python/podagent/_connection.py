"""Sends requests to a gateway, with the caller's token, over connections that are kept."""

from __future__ import annotations

import http.client
import json
import os
import select
import socket
import ssl
import threading
import time
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from typing import Any, TypeVar
from urllib.parse import urlencode, urlsplit

from .errors import CutError, PodagentError, ProblemError, UnreachableError, error_of

_T = TypeVar("_T")

_CONNECT_TIMEOUT = 10.0
_FIRST_PAUSE = 0.1
_LONGEST_PAUSE = 2.0
_IDLE = 16  # connections that are kept
# A gateway whose machine is gone is noticed within a minute.
_KEEPALIVE = {"TCP_KEEPIDLE": 30, "TCP_KEEPINTVL": 10, "TCP_KEEPCNT": 3}


@dataclass
class Call:
    """A request to a gateway."""

    query: dict[str, Any] | None = None
    headers: dict[str, str | None] | None = None
    json: Any = None
    body: bytes | Iterable[bytes] | None = None  # what comes bit by bit can be sent once: such a call must not be repeatable
    accept: str | None = None
    # It may be sent again though it is not known whether it was done. GET, PUT and DELETE may, unless it says False.
    repeatable: bool | None = None
    patience: float | None = None


class Connection:
    """The way to a gateway. It may be used by several threads."""

    def __init__(
        self,
        url: str | None = None,
        token: str | Callable[[], str] | None = None,
        patience: float = 60,
        context: ssl.SSLContext | None = None,
    ) -> None:
        """Takes url and token from the environment if they are missing."""
        url = url or os.environ.get("PODAGENT_GATEWAY")
        token = token or os.environ.get("PODAGENT_GATEWAY_TOKEN")
        if not url:
            raise PodagentError("no gateway: give its url, or set PODAGENT_GATEWAY")
        if not token:
            raise PodagentError("no token: give one, or set PODAGENT_GATEWAY_TOKEN")
        self.patience = patience
        self._url = urlsplit(url.rstrip("/"))
        if self._url.scheme not in ("http", "https") or not self._url.hostname:
            raise PodagentError(f"{url!r} is no address of a gateway")
        self._token = token if callable(token) else lambda: token
        self._context = context
        self._idle: list[http.client.HTTPConnection] = []
        self._lock = threading.Lock()

    def send(self, method: str, path: str, call: Call | None = None) -> Answer:
        """Sends a request until a gateway takes it, and returns an answer of success."""
        return self._repeat(method, path, call or Call(), lambda answer: answer)

    def send_whole(self, method: str, path: str, call: Call | None = None) -> bytes:
        """Sends a request, and reads its answer: if that is cut off, the request is sent again, if it may be."""
        return self._repeat(method, path, call or Call(), lambda answer: answer.read())

    def _repeat(self, method: str, path: str, call: Call, take: Callable[[Answer], _T]) -> _T:
        until = time.monotonic() + (self.patience if call.patience is None else call.patience)
        repeatable = method != "POST" if call.repeatable is None else call.repeatable
        pause = _FIRST_PAUSE
        while True:
            try:
                return take(self._once(method, path, call))
            except PodagentError as error:
                wait = _wait_for(error, repeatable, pause)
                if wait is None or time.monotonic() + wait > until:
                    raise
            time.sleep(wait)
            pause = min(2 * pause, _LONGEST_PAUSE)

    def json(self, method: str, path: str, call: Call | None = None) -> Any:
        """Sends a request, and returns the JSON of its answer; None if it has no content."""
        body = self.send_whole(method, path, call)
        return json.loads(body) if body else None

    def close(self) -> None:
        """Closes the connections that nobody uses."""
        with self._lock:
            idle, self._idle = self._idle, []
        for conn in idle:
            conn.close()

    def give_back(self, conn: http.client.HTTPConnection) -> None:
        """Keeps a connection for the next request."""
        with self._lock:
            if len(self._idle) < _IDLE:
                self._idle.append(conn)
                return
        conn.close()

    def _once(self, method: str, path: str, call: Call) -> Answer:
        headers = {"Authorization": f"Bearer {self._token()}"}
        headers |= {name: value for name, value in (call.headers or {}).items() if value is not None}
        body = call.body
        if call.accept:
            headers["Accept"] = call.accept
        if call.json is not None:
            headers["Content-Type"] = "application/json"
            body = json.dumps(call.json).encode()
        elif body is not None:
            headers["Content-Type"] = "application/octet-stream"
        conn = None
        try:
            conn = self._take()
            try:
                conn.request(method, self._url.path + path + _query_of(call.query), body=body, headers=headers)
            except (BrokenPipeError, ConnectionResetError):
                pass  # who refuses a request does not read it to its end: the answer may be there
            answer = Answer(self, conn, conn.getresponse())
        except (OSError, http.client.HTTPException) as error:
            if conn:
                conn.close()
            raise UnreachableError(f"no gateway answers at {self._url.geturl()}: {error}") from error
        if 200 <= answer.status < 300:
            return answer
        kind, wait = answer.header("Content-Type") or "", answer.header("Retry-After")
        raise error_of(answer.status, kind, wait, answer.read())

    def _take(self) -> http.client.HTTPConnection:
        """Returns a connection that is open, as far as one can know."""
        while True:
            with self._lock:
                conn = self._idle.pop() if self._idle else None
            if conn is None:
                return self._connect()
            if conn.sock and not _is_readable(conn.sock):
                return conn
            conn.close()  # by the gateway: nothing else makes it readable

    def _connect(self) -> http.client.HTTPConnection:
        host, port = self._url.hostname or "", self._url.port
        if self._url.scheme == "https":
            conn: http.client.HTTPConnection = http.client.HTTPSConnection(
                host, port, timeout=_CONNECT_TIMEOUT, context=self._context
            )
        else:
            conn = http.client.HTTPConnection(host, port, timeout=_CONNECT_TIMEOUT)
        conn.connect()
        conn.sock.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
        for name, value in _KEEPALIVE.items():
            if hasattr(socket, name):
                conn.sock.setsockopt(socket.IPPROTO_TCP, getattr(socket, name), value)
        conn.sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        conn.sock.settimeout(None)  # a command may be silent for long
        return conn


class Answer:
    """An answer of success. It must be read to its end, or closed."""

    def __init__(self, owner: Connection, conn: http.client.HTTPConnection, response: http.client.HTTPResponse) -> None:
        """Connections make it."""
        self._owner = owner
        self._conn: http.client.HTTPConnection | None = conn
        self._response = response
        self.status = response.status

    def header(self, name: str) -> str | None:
        """Returns a header of the answer."""
        return self._response.headers.get(name)

    def read(self) -> bytes:
        """Reads the whole content."""
        return b"".join(self.parts())

    def parts(self, size: int = 1 << 16) -> Iterator[bytes]:
        """Yields the content as it comes."""
        try:
            while part := self._response.read1(size):
                yield part
            if self._response.length:
                raise CutError("the answer was cut off")
        except (OSError, http.client.HTTPException) as error:
            raise CutError(f"the answer was cut off: {error}") from error
        finally:
            self.close()

    def lines(self) -> Iterator[Any]:
        """Yields the JSON of each line."""
        rest: list[bytes] = []  # of a line that has begun
        for part in self.parts():
            first, *others = part.split(b"\n")
            rest.append(first)
            for other in others:
                line = b"".join(rest)
                rest = [other]
                if line:
                    yield json.loads(line)

    def close(self) -> None:
        """Leaves the answer. What has yet to come of it is dropped, with its connection."""
        conn, self._conn = self._conn, None
        if conn is None:
            return
        if self._response.isclosed() and not self._response.will_close:
            self._owner.give_back(conn)
        else:
            self._response.close()
            conn.close()


def _is_readable(sock: socket.socket) -> bool:
    poll = select.poll()
    poll.register(sock, select.POLLIN)
    return bool(poll.poll(0))


def _wait_for(error: PodagentError, repeatable: bool, pause: float) -> float | None:
    """Returns after how many seconds a request may be sent again, if it may.

    A gateway that asks to come again has done nothing, unless it ends: then it asks so of all calls
    that are under way.
    """
    if isinstance(error, ProblemError):
        perhaps_done = error.kind == "unavailable" and not repeatable
        if error.retry_after is not None and not perhaps_done and error.status in (429, 503):
            return error.retry_after
        return pause if repeatable and error.kind == "unavailable" and not error.problem.get("exec_id") else None
    return pause if isinstance(error, UnreachableError) and repeatable else None


def _query_of(query: dict[str, Any] | None) -> str:
    def text(value: Any) -> Any:
        return str(value).lower() if isinstance(value, bool) else value

    given = [(name, text(value)) for name, value in (query or {}).items() if value is not None]
    return "?" + urlencode(given) if given else ""
