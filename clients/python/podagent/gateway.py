"""A gateway, and the sandboxes of the caller's tenant."""

from __future__ import annotations

import ssl
import uuid
from collections.abc import Callable, Iterator
from typing import Any
from urllib.parse import quote

from ._connection import Call, Connection
from .sandbox import Sandbox

_ROOT = "/api/v1/sandboxes"


class Gateway:
    """A gateway. It may be used by several threads."""

    def __init__(
        self,
        url: str | None = None,
        token: str | Callable[[], str] | None = None,
        *,
        patience: float = 60,
        context: ssl.SSLContext | None = None,
    ) -> None:
        """url and token are PODAGENT_GATEWAY and PODAGENT_GATEWAY_TOKEN of the environment if they are missing.

        For patience seconds calls are repeated while no gateway answers, or while one asks to come again,
        where a repetition does no harm.
        """
        self._connection = Connection(url, token, patience, context)

    def create(self, id: str | None = None, **options: Any) -> Sandbox:
        """Makes a sandbox, or gets the one that has the id. The options are those of create-sandbox in openapi.json."""
        body = {name: value for name, value in {"id": id, **options}.items() if value is not None}
        call = Call(json=body, headers={"Idempotency-Key": str(uuid.uuid4())}, repeatable=True)
        return Sandbox(self._connection, self._connection.json("POST", _ROOT, call))

    def attach(self, id: str) -> Sandbox:
        """Gets a sandbox that is there. This does not wake it."""
        return Sandbox(self._connection, self._connection.json("GET", f"{_ROOT}/{quote(id, safe='')}"))

    def list(self, *, state: str | None = None, label: str | None = None) -> Iterator[dict[str, Any]]:
        """Yields what is known of all sandboxes, in the order of their names."""
        after = None
        while True:
            page = self._connection.json("GET", _ROOT, Call(query={"state": state, "label": label, "after": after}))
            yield from page["sandboxes"]
            after = page.get("next")
            if after is None:
                return

    def whoami(self) -> dict[str, str]:
        """Says whose the token is."""
        return self._connection.json("GET", "/api/v1/whoami")

    def close(self) -> None:
        """Closes the connections that nobody uses. Sandboxes stay."""
        self._connection.close()
