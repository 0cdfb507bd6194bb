"""What tests of programs at `/mcp` share: whoever runs them, and what is on record of them."""

import json
import urllib.request
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from typing import Any

from mcp.client import Client

from tests.demo.client import connected
from tests.e2e.site import Corridor
from tests.e2e.test_python_clients import text_of
from tests.running import ALL, EVERY_SCOPE
from tests.servers.process import RunningServer

MODES = ("legacy", "2026-07-28")
SCOPES = (*EVERY_SCOPE, "code:run")
CODE: Mapping[str, Any] = {
    "enabled": True,
    "typescript": "required",
    "limits": {
        "calls": 12,
        "wall": "15s",  # of which a busy machine takes a lot
        "interpreter": "1s",
        "memory": 8 << 20,
        "value_bytes": 1024,
        "code_bytes": 4096,
        "runs": 2,
    },
}
"""The section `code` of their gateway."""
CALLED = [
    ("filesystem", "list_allowed_directories", "read", "allow"),
    ("filesystem", "read_text_file", "read", "allow"),
    ("notes", "read_note", "read", "allow"),
    ("everything", "echo", "read", "allow"),
    ("notes", "write_note", "write", "allow"),
    ("notes", "delete_note", "destroy", "deny"),
    ("notes", "read_note", "read", "allow"),
]
"""What one program calls that is written in each language: server, tool, effect, verdict."""


@asynccontextmanager
async def programmer(
    site: Corridor, mode: str, *, name: str = "programmer", **options: Any
) -> AsyncIterator[Client]:
    token = site.token(ALL, name=name, scopes=SCOPES)
    async with connected(site.endpoint(ALL), token, mode, **options) as client:
        yield client


async def ran(client: Client, code: str, **arguments: Any) -> Any:
    """Return what became of a program: the JSON in the text of the result."""
    return json.loads(text_of(await client.call_tool("run_code", {"code": code, **arguments})))


def slow(server: RunningServer) -> dict[str, int]:
    """Return how many slow calls the notes server has begun, finished and given up."""
    with urllib.request.urlopen(f"{server.origin}/admin", timeout=60) as answer:
        found: dict[str, int] = json.load(answer)["slow"]
    return found


def records(site: Corridor, tool: str, kind: str = "outcome") -> list[dict[str, Any]]:
    """Return the records about calls of `tool`, newest first."""
    rows = site.running.rows("audit", "query", "--tool", tool)
    return [row for row in rows if row["kind"] == kind]
