"""Requests as clients of both families send them."""

import json
from typing import Any

from gateway.wire.inbound import MODERN_CAPABILITIES_KEY, MODERN_VERSION_KEY

LEGACY = "2025-11-25"
MODERN = "2026-07-28"
META: dict[str, Any] = {MODERN_VERSION_KEY: MODERN, MODERN_CAPABILITIES_KEY: {}}

Pairs = list[tuple[str, str]]


def body(method: str, params: dict[str, Any] | None = None, **members: Any) -> bytes:
    content = {"jsonrpc": "2.0", "id": 1, "method": method, "params": params or {}, **members}
    return json.dumps({name: found for name, found in content.items() if found is not ...}).encode()


def headers(**fields: str) -> Pairs:
    """A POST's headers; `mcp_name="x"` gives `Mcp-Name: x`."""
    pairs = [
        ("Host", "127.0.0.1:8080"),
        ("Accept", "application/json, text/event-stream"),
        ("Content-Type", "application/json"),
        ("Authorization", "Bearer secret"),
        ("Cookie", "a=b"),
    ]
    return pairs + [(name.replace("_", "-").title(), text) for name, text in fields.items()]


def modern_headers(method: str, name: str | None = None, **fields: str) -> Pairs:
    if name is not None:
        fields["mcp_name"] = name
    return headers(mcp_protocol_version=MODERN, mcp_method=method, **fields)
