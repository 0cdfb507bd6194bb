"""A gateway in this very process, called without sockets of its own: to count and time what a call takes."""

import asyncio
import os
import sys
from collections.abc import AsyncIterator, Iterator, Mapping
from contextlib import AsyncExitStack, asynccontextmanager, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import orjson

from gateway.config import load
from gateway.web.heads import Heads
from gateway.wiring.gateway import Gateway
from gateway.wiring.identity import opened
from tests.running import running_gateway
from tests.servers.process import free_port, running

SERVER, TOOL = "echo", "echo"
_STATELESS = "2026-07-28"
_OK = 200


@dataclass(frozen=True, kw_only=True)
class Prepared:
    """A data directory in which an echo server's tool is approved, and a client that may call it."""

    config: Path
    host: str
    token: str


@contextmanager
def prepared(folder: Path, **settings: Any) -> Iterator[Prepared]:
    """Start an echo server, have everything that it shows approved, and leave it running."""
    folder.mkdir(parents=True, exist_ok=True)
    port = free_port()
    command = [sys.executable, "-m", "benchmarks.latency.upstream", str(port)]
    with running(command, {}, port, folder / "upstream.log") as upstream:
        server = {
            "url": upstream.url,
            "defaults": {"integrity": "trusted", "confidentiality": "internal"},
            "tools": {TOOL: {"effect": "read"}},
        }
        given = {
            "audit": {"durability": "process"},
            "limits": {"calls_per_minute": 1_000_000_000},
            "pins": {"recheck": "1h", "fresh": "1h"},
            **settings,
        }
        with running_gateway(folder, {SERVER: server}, **given) as gateway:
            gateway.approve_all(SERVER)
            token = gateway.token(SERVER)
        yield Prepared(config=gateway.config, host=gateway.url.split("//")[1], token=token)


@dataclass(frozen=True, kw_only=True)
class Asked:
    """One request: what it says, and what its connection tells the gateway of it."""

    text: str
    body: bytes
    scope: dict[str, Any]


class Within:
    """A gateway without listeners; a request is handed to it as on one connection of its HTTP server."""

    def __init__(self, gateway: Gateway, prepared: Prepared) -> None:
        self._gateway = gateway
        self._number = 0
        self._head = "\r\n".join(
            (
                f"POST /mcp/{SERVER} HTTP/1.1",
                f"host: {prepared.host}",
                "content-type: application/json",
                "accept: application/json, text/event-stream",
                f"mcp-protocol-version: {_STATELESS}",
                "mcp-method: tools/call",
                f"mcp-name: {TOOL}",
                f"authorization: Bearer {prepared.token}",
            )
        )
        self._heads = Heads({"type": "http", "client": ("127.0.0.1", 5)}, {})

    def asked(self) -> Asked:
        """Return a call of the tool with arguments that no earlier call had, as its connection has read it."""
        self._number += 1
        text = f"0123456789abcdef {self._number}"
        body = _request(self._number, {"text": text, "to": "emma@example.com"})
        head, digits = self._heads.read(f"{self._head}\r\ncontent-length: {len(body)}".encode())
        return Asked(text=text, body=body, scope=head.scope(digits))

    async def call(self, asked: Asked | None = None) -> bytes:
        """Call the tool, and return its answer."""
        asked = asked or self.asked()
        sent: list[Mapping[str, Any]] = []
        arriving = [asked.body]

        async def receive() -> Mapping[str, Any]:
            if not arriving:  # the client stays
                await asyncio.Event().wait()
            return {"type": "http.request", "body": arriving.pop(), "more_body": False}

        async def send(message: Mapping[str, Any]) -> None:
            sent.append(message)

        await self._gateway.serve(asked.scope, receive, send)  # type: ignore[arg-type]
        start, end = sent
        if start["status"] != _OK or f"ok {asked.text}".encode() not in end["body"]:
            raise RuntimeError(f"{start}: {end}")
        answer: bytes = end["body"]
        return answer


@asynccontextmanager
async def within(prepared: Prepared) -> AsyncIterator[Within]:
    """Open the gateway of a folder in this process."""
    config = load(prepared.config, os.environ)
    async with AsyncExitStack() as stack:
        identity = await stack.enter_async_context(opened(config))
        gateway = Gateway(config, prepared.config, identity)
        await stack.enter_async_context(gateway.running())
        await stack.enter_async_context(gateway.recorded.running())
        await gateway.started()
        yield Within(gateway, prepared)


def _request(number: int, arguments: Mapping[str, str]) -> bytes:
    about = {
        "io.modelcontextprotocol/protocolVersion": _STATELESS,
        "io.modelcontextprotocol/clientCapabilities": {},
    }
    params = {"name": TOOL, "arguments": arguments, "_meta": about}
    message = {"jsonrpc": "2.0", "id": number, "method": "tools/call", "params": params}
    return orjson.dumps(message)
