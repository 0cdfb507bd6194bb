"""A labelled set as servers that can be staged: their names as a configuration takes them."""

import re
from collections.abc import Mapping, Sequence
from typing import Any

from gateway.builtin.names import public_name
from gateway.domain.tools import Kind, Target, UpstreamId

_LONGEST = 32
_NO_NAME = re.compile("[^a-z0-9-]+")


def tools_of(rows: Sequence[Mapping[str, Any]]) -> dict[str, list[dict[str, Any]]]:
    """Return the definitions of a set's rows, by server."""
    servers = _servers(rows)
    found: dict[str, list[dict[str, Any]]] = {}
    for row in rows:
        found.setdefault(servers[str(row["server"])], []).append(
            {
                "name": str(row["name"]),
                "description": str(row.get("description") or ""),
                "inputSchema": row.get("input_schema") or {"type": "object"},
            }
        )
    return found


def names_of(rows: Sequence[Mapping[str, Any]]) -> dict[str, str]:
    """Return what each row's tool is called at `/mcp`, by the row's id."""
    servers = _servers(rows)
    return {
        str(row["id"]): public_name(
            Target(
                server=UpstreamId(servers[str(row["server"])]),
                kind=Kind.TOOL,
                name=str(row["name"]),
            )
        )
        for row in rows
    }


def _servers(rows: Sequence[Mapping[str, Any]]) -> dict[str, str]:
    """Return a name for each server that a configuration takes, and that no two share."""
    found: dict[str, str] = {}
    for server in dict.fromkeys(str(row["server"]) for row in rows):
        plain = _NO_NAME.sub("-", server.lower()).strip("-")[:_LONGEST].strip("-") or "server"
        taken = plain in found.values()
        found[server] = f"{plain[: _LONGEST - 4]}-{len(found)}" if taken else plain
    return found
