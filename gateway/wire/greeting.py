"""What a server says of itself when a conversation begins."""

from collections.abc import Mapping
from typing import Any

from gateway.domain.tools import Profile

_LONGEST_VERSION = 256
"""Characters. It is kept with each of the server's pins."""
_SERVER_INFO_KEY = "io.modelcontextprotocol/serverInfo"


def server_item(profile: Profile, greeting: Mapping[str, Any]) -> tuple[dict[str, Any], str]:
    """Return what of `greeting` a person approves, and the version that the server names.

    `greeting` is the result of `initialize`, or of `server/discover` in the stateless revision.
    Its capabilities are the server's own words: also those that are left out for clients.
    """
    named: object = greeting.get("serverInfo")
    if profile is Profile.MODERN:
        meta = greeting.get("_meta")
        named = meta.get(_SERVER_INFO_KEY) if isinstance(meta, dict) else None
    known = named if isinstance(named, dict) else {}
    name, version = known.get("name"), known.get("version")
    instructions, capabilities = greeting.get("instructions"), greeting.get("capabilities")
    item = {
        "name": name if isinstance(name, str) else "",
        "instructions": instructions if isinstance(instructions, str) else None,
        "capabilities": capabilities if isinstance(capabilities, dict) else {},
        "serverInfo": known,
    }
    return item, version if isinstance(version, str) and len(version) <= _LONGEST_VERSION else ""
