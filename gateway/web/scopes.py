"""What an application is told of a connection and of a request on it (ASGI 3)."""

import asyncio
import re
from typing import Any, Final
from urllib.parse import unquote

from gateway.http1 import Asked
from gateway.web.guard import TARGET

_ASGI: Final = {"version": "3.0", "spec_version": "2.3"}
_VERSIONS: Final = ("1.0", "1.1")
_PATH: Final = re.compile(rb"(?:https?://[^/?]*)?([^?]*)\??(.*)", re.IGNORECASE)


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
        "extensions": {TARGET: {"sent": asked.target}},
    }


def _address(told: Any) -> tuple[str, int] | None:
    return (str(told[0]), int(told[1])) if isinstance(told, tuple) else None
