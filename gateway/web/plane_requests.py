"""How planes prove themselves and send, whatever they speak."""

import asyncio
from collections.abc import Mapping
from hashlib import sha256
from typing import Final, TypeVar

from starlette.types import Receive

from gateway.errors import ProtocolError

Known = TypeVar("Known")

REQUEST_ID: Final = "x-request-id"
_BODY_S: Final = 30.0
_LONGEST_REQUEST_ID: Final = 128
_LONGEST_KEY: Final = 4 * 1024


def keyed(headers: Mapping[str, str], by_key: Mapping[bytes, Known]) -> Known | None:
    """Return who holds the key of the Authorization header (RFC 6750 section 2.1)."""
    scheme, _, key = headers.get("authorization", "").partition(" ")
    if scheme.lower() != "bearer" or len(key) > _LONGEST_KEY:
        return None
    return by_key.get(sha256(key.strip().encode("latin-1")).digest())


def is_json(headers: Mapping[str, str]) -> bool:
    return headers.get("content-type", "").partition(";")[0].strip().lower() == "application/json"


def request_id_of(headers: Mapping[str, str]) -> str:
    """Return what a plane calls its request; nothing, if that is nothing to repeat."""
    told = headers.get(REQUEST_ID, "")
    return (
        told if told.isascii() and told.isprintable() and len(told) <= _LONGEST_REQUEST_ID else ""
    )


async def read_body(receive: Receive, most_bytes: int) -> bytes:
    """Return a request's body.

    Raises:
        ProtocolError: It is too large, takes too long, or does not come whole.

    """
    parts: list[bytes] = []
    size = 0
    try:
        async with asyncio.timeout(_BODY_S):
            while True:
                message = await receive()
                if message["type"] == "http.disconnect":
                    raise ProtocolError("the body did not come whole")
                parts.append(message.get("body", b""))
                size += len(parts[-1])
                if size > most_bytes:
                    raise ProtocolError("the body is too large", status=413)
                if not message.get("more_body"):
                    return b"".join(parts)
    except TimeoutError:
        raise ProtocolError("the body took too long", status=408) from None
