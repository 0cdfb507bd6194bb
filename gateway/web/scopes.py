"""What an application is told of a connection and of a request on it (ASGI 3)."""

import asyncio
import re
from collections.abc import Mapping
from functools import cached_property
from typing import Any, Final
from urllib.parse import unquote

from gateway.http1 import Asked, RawPairs
from gateway.wire.headers import Headers, read_headers

TARGET: Final = "http.request.target"
"""The extension of a scope in which a connection tells the request's target as it was sent."""
FOUND: Final = "douane.found"
"""The extension of a scope in which it stands what was found in its head."""

_LENGTH: Final = b"content-length"
_ASGI: Final = {"version": "3.0", "spec_version": "2.3"}
_VERSIONS: Final = ("1.0", "1.1")
_PATH: Final = re.compile(rb"(?:https?://[^/?]*)?([^?]*)\??(.*)", re.IGNORECASE)


class Found:
    """What follows from the fields of a head alone, whatever the length that it tells: found once.

    A connection has one for all requests whose heads say the same.
    """

    def __init__(self, fields: RawPairs) -> None:
        self._fields = fields
        self.passed_by: object = None
        """What stands for the guard that has let it pass."""
        self.read_by: tuple[object, Any] = (None, None)
        """By which door it was read that knows its sender, and what that found."""

    @cached_property
    def pairs(self) -> list[tuple[str, str]]:
        """The fields as texts, but for the length."""
        return [
            (name.decode("latin-1"), text.decode("latin-1"))
            for name, text in self._fields
            if name != _LENGTH
        ]

    @cached_property
    def headers(self) -> Headers:
        """What MCP uses of the fields.

        Raises:
            ProtocolError: As `read_headers`.

        """
        return read_headers(self.pairs)


def found_in(scope: Mapping[str, Any]) -> Found:
    """Return what was found in the head of this request; nothing yet where no connection keeps it."""
    kept: Found | None = scope.get("extensions", {}).get(FOUND)
    return Found(scope["headers"]) if kept is None else kept


def of_connection(transport: asyncio.Transport) -> dict[str, Any]:
    """Return what all requests on a connection have in common."""
    return {
        "type": "http",
        "asgi": _ASGI,
        "server": _address(transport.get_extra_info("sockname")),
        "client": _address(transport.get_extra_info("peername")),
        "scheme": "http" if transport.get_extra_info("sslcontext") is None else "https",
        "root_path": "",
    }


def of_request(common: dict[str, Any], asked: Asked) -> dict[str, Any]:
    """Return what is asked for; the target as it was sent is for the guard, which judges an authority in it."""
    read = _PATH.fullmatch(asked.target)
    path, query = (read[1] or b"/", read[2]) if read else (b"", b"")
    text = path.decode("ascii")
    return {
        **common,
        "http_version": _VERSIONS[asked.minor],
        "method": asked.method,
        "path": unquote(text) if "%" in text else text,
        "raw_path": path,
        "query_string": query,
        "headers": asked.fields,
        "extensions": {TARGET: {"sent": asked.target}, FOUND: Found(asked.fields)},
    }


def _address(told: Any) -> tuple[str, int] | None:
    return (str(told[0]), int(told[1])) if isinstance(told, tuple) else None
