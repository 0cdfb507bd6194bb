"""A proxy that shows one server's part of the endpoint in front of all under its own, bare names.

The suite knows its fixture's tools, prompts and resources by fixed names, which there begin with the
server's. Names are put in front on the way in and taken away on the way back, and the bearer token is
added; everything else passes as it came, events as they come.
"""

import asyncio
import base64
import json
import re
from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import AbstractContextManager, suppress
from dataclasses import dataclass
from typing import Any, Final

from benchmarks.conformance.shim import Ends, Shim, ends_with_the_first, path_of, serving, signed

ENDPOINT: Final = "/mcp"
_HEADER: Final = re.compile(rb"(\r\nmcp-name:[ \t]*)([^\r\n]*?)([ \t]*)(?=\r\n)", re.IGNORECASE)
_LENGTH: Final = re.compile(rb"\r\ncontent-length:[ \t]*(\d+)", re.IGNORECASE)
_FRAMING: Final = re.compile(rb"\r\n(?:content-length|transfer-encoding):[^\r\n]*", re.IGNORECASE)
_CHUNKED: Final = re.compile(rb"\r\ntransfer-encoding:[ \t]*chunked", re.IGNORECASE)
_ENCODED: Final = re.compile(r"=\?base64\?(.*)\?=")
_PIECE_BYTES: Final = 64 * 1024
_NAMED: Final = frozenset({"tools/call", "prompts/get"})
_BY_URI: Final = frozenset({"resources/read", "resources/subscribe", "resources/unsubscribe"})

Rename = Callable[[str], str]


@dataclass
class Renaming(Shim):
    """A shim that adds the name of `server` to what is sent to `/mcp`, and takes it away again."""

    server: str = ""
    front_token: str = ""
    """Added to requests to `/mcp`."""

    async def _carry(self, head: bytes, client: Ends, server: Ends) -> None:
        """Carry a request and its answer; one for `/mcp` under the names that it has there."""
        if path_of(head) != ENDPOINT.encode():
            await super()._carry(head, client, server)
            return
        length = _LENGTH.search(head)
        body = await client.reader.readexactly(int(length[1])) if length else b""
        server.writer.write(self._renamed(head, body))
        await ends_with_the_first(_left(client.reader), self._answered(server, client))

    def _renamed(self, head: bytes, body: bytes) -> bytes:
        message = _read(body)
        change = self._change(message.get("method", ""))
        params = message.get("params")
        if change is not None and isinstance(params, dict):
            body = json.dumps({**message, "params": self._params(params, change)}).encode()
            head = _LENGTH.sub(b"\r\nContent-Length: %d" % len(body), head)
            head = _HEADER.sub(lambda found: _header(found, change), head)
        return signed(head, self.front_token) + body

    def _change(self, method: str) -> Rename | None:
        if method in _NAMED:
            return self._name
        if method in _BY_URI:
            return self._uri
        return self._uri if method in {"completion/complete", "subscriptions/listen"} else None

    def _params(self, params: Mapping[str, Any], change: Rename) -> dict[str, Any]:
        changed = dict(params)
        for member in ("name", "uri"):
            if isinstance(params.get(member), str):
                changed[member] = change(params[member])
        if isinstance(ref := params.get("ref"), dict):
            both = {"name": self._name, "uri": self._uri}
            changed["ref"] = {k: both[k](v) if k in both else v for k, v in ref.items()}
        if isinstance(wanted := params.get("notifications"), dict):
            uris = wanted.get("resourceSubscriptions")
            if isinstance(uris, list):
                wanted = {**wanted, "resourceSubscriptions": [self._uri(uri) for uri in uris]}
            changed["notifications"] = wanted
        return changed

    def _name(self, name: str) -> str:
        return f"{self.server}__{name}"

    def _uri(self, uri: str) -> str:
        return f"douane://{self.server}/{uri}"

    async def _answered(self, server: Ends, client: Ends) -> None:
        answer, writer = server.reader, client.writer
        head = await answer.readuntil(b"\r\n\r\n")
        # What has other names has another length; the end of the connection is that of the answer.
        writer.write(_FRAMING.sub(b"", head))
        rest = b""
        async for piece in _pieces(answer, chunked=_CHUNKED.search(head) is not None):
            lines, end, rest = (rest + piece).rpartition(b"\n")
            writer.write(self._bare(lines + end))
            await writer.drain()
        writer.write(self._bare(rest))
        await writer.drain()

    def _bare(self, text: bytes) -> bytes:
        for prefix in (self._name(""), self._uri("")):
            text = text.replace(prefix.encode(), b"")
        return text


def renaming(port: int, target_port: int, server: str) -> AbstractContextManager[Renaming]:
    """Serve on `port` for the gateway on `target_port`, in a thread, while the context is open."""
    return serving(Renaming(port=port, target_port=target_port, server=server))


def _read(body: bytes) -> Mapping[str, Any]:
    with suppress(ValueError):
        message = json.loads(body)
        if isinstance(message, dict):
            return message
    return {}


def _header(found: "re.Match[bytes]", change: Rename) -> bytes:
    name = found[2].decode("latin-1")
    if (encoded := _ENCODED.fullmatch(name)) is not None:
        inner = base64.b64decode(encoded[1]).decode()
        named = f"=?base64?{base64.b64encode(change(inner).encode()).decode()}?="
    else:
        named = change(name)
    return found[1] + named.encode("latin-1") + found[3]


async def _pieces(answer: asyncio.StreamReader, *, chunked: bool) -> AsyncIterator[bytes]:
    while piece := await (_chunk(answer) if chunked else answer.read(_PIECE_BYTES)):
        yield piece


async def _chunk(answer: asyncio.StreamReader) -> bytes:
    size = int(await answer.readline(), 16)
    piece = await answer.readexactly(size)
    await answer.readline()
    return piece


async def _left(reader: asyncio.StreamReader) -> None:
    """Wait until the client has gone."""
    while await reader.read(_PIECE_BYTES):
        pass
