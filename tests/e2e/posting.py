"""MCP messages by hand: JSON-RPC over sockets, in either family of revisions."""

import itertools
import json
from typing import Any
from urllib.parse import urlsplit

from tests.e2e.site import Corridor
from tests.e2e.sockets import Answered, Pairs, exchange, head
from tests.running import endpoint_of

MODERN = "2026-07-28"
LEGACY = "2025-11-25"
META: dict[str, Any] = {
    "io.modelcontextprotocol/protocolVersion": MODERN,
    "io.modelcontextprotocol/clientCapabilities": {},
}
_ids = itertools.count(1)


def body_of(method: str, params: dict[str, Any] | None = None, **members: Any) -> bytes:
    """A request as JSON text; `id=None` makes it a notification."""
    message = {"jsonrpc": "2.0", "id": next(_ids), "method": method, **members}
    if params is not None:
        message["params"] = params
    return json.dumps({k: v for k, v in message.items() if v is not None}).encode()


def modern_params(params: dict[str, Any]) -> dict[str, Any]:
    return {**params, "_meta": {**META, **params.get("_meta", {})}}


class Poster:
    """Sends to one endpoint as one principal; `post` says no more than it is told to."""

    def __init__(
        self, gateway: Corridor, server: str, *, name: str = "agent", by: str = ""
    ) -> None:
        """`by` is the URL of whatever carries what is sent, if that is not the gateway."""
        self.gateway = gateway
        self.url = (by + endpoint_of(server)) if by else gateway.endpoint(server)
        self.path = urlsplit(self.url).path
        self.token = gateway.token(server, name=name)

    @property
    def fields(self) -> Pairs:
        """What every request needs, whatever it is."""
        return [
            ("Host", urlsplit(self.url).netloc),
            ("Accept", "application/json, text/event-stream"),
            ("Authorization", f"Bearer {self.token}"),
            ("Connection", "close"),
        ]

    def post(
        self, body: bytes, *extra: tuple[str, str], content_type: str | None = "application/json"
    ) -> Answered:
        """Send `body` with `extra` header fields."""
        return exchange(self.url, self.octets(body, *extra, content_type=content_type))

    def octets(
        self, body: bytes, *extra: tuple[str, str], content_type: str | None = "application/json"
    ) -> bytes:
        typed = [] if content_type is None else [("Content-Type", content_type)]
        pairs = [*self.fields, *typed, ("Content-Length", str(len(body))), *extra]
        return head("POST", self.path, pairs) + body

    def legacy(
        self, method: str, params: dict[str, Any] | None = None, *extra: tuple[str, str]
    ) -> Answered:
        return self.post(body_of(method, params), ("MCP-Protocol-Version", LEGACY), *extra)

    def modern(self, method: str, params: dict[str, Any], *extra: tuple[str, str]) -> Answered:
        return self.post(body_of(method, modern_params(params)), *mirrored(method, params), *extra)

    def call(self, tool: str, arguments: dict[str, Any] | None = None) -> Answered:
        return self.modern("tools/call", {"name": tool, "arguments": arguments or {}})

    def session(self) -> str:
        """Begin a legacy session and return its id."""
        params = {"protocolVersion": LEGACY, "capabilities": {}, "clientInfo": {"name": "t"}}
        answered = self.post(body_of("initialize", params))
        session = answered.headers["mcp-session-id"]
        self.post(
            body_of("notifications/initialized", id=None),
            ("MCP-Protocol-Version", LEGACY),
            ("Mcp-Session-Id", session),
        )
        return session

    def get(self, *extra: tuple[str, str], version: str = LEGACY) -> Answered:
        fields = [*self.fields, ("MCP-Protocol-Version", version), *extra]
        return exchange(self.url, head("GET", self.path, fields))


def mirrored(method: str, params: dict[str, Any]) -> Pairs:
    """The header fields that say in the stateless revision what the body says."""
    pairs = [("MCP-Protocol-Version", MODERN), ("Mcp-Method", method)]
    name = params.get("name", params.get("uri"))
    return pairs if name is None else [*pairs, ("Mcp-Name", name)]
