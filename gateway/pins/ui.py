"""Resources of the extension MCP Apps: what a host shows to a person, pinned by what it holds."""

import hashlib
import re
from collections.abc import Iterable, Mapping
from typing import Any, Final

_SCHEME: Final = "ui:"
_PLAIN: Final = re.compile(r"[!-~]{1,2048}", re.ASCII)
_BODIES: Final = frozenset({"text", "blob"})


def is_ui(uri: str) -> bool:
    """Whether `uri` is of an interface, which a host renders and runs (MCP Apps, UI resources)."""
    # Readers of URLs pass over blanks and controls, and fold the scheme's case.
    return "".join(octet for octet in uri if octet > " ").lower().startswith(_SCHEME)


def named_interfaces(tools: Iterable[Any]) -> list[str]:
    """Return the `ui://` URIs that the definitions `tools` name, each once.

    As `_meta.ui.resourceUri` or, as it was first spelt, `_meta["ui/resourceUri"]`. What is no
    plain URI is left out: it could not be pinned.
    """
    found: dict[str, None] = {}
    for tool in tools:
        meta = tool.get("_meta") if isinstance(tool, dict) else None
        if not isinstance(meta, dict):
            continue
        ui = meta.get("ui")
        nested = ui.get("resourceUri") if isinstance(ui, dict) else None
        uris = (uri for uri in (nested, meta.get("ui/resourceUri")) if isinstance(uri, str))
        found |= dict.fromkeys(uri for uri in uris if _PLAIN.fullmatch(uri) and is_ui(uri))
    return list(found)


def interface_item(uri: str, result: Mapping[str, Any]) -> dict[str, Any]:
    """Return what of a `resources/read` of `uri` a person approves.

    Its text and data stand in it by their SHA-256 and length, for they are often larger than
    definitions may be; all else, such as where it may connect to, stands as it is.
    """
    contents = result.get("contents")
    if not isinstance(contents, list):
        return {"uri": uri, "contents": contents}
    return {"uri": uri, "contents": [_pinned(content) for content in contents]}


def _pinned(content: Any) -> Any:
    if not isinstance(content, dict):
        return content
    return {
        name: _digested(inner) if name in _BODIES and isinstance(inner, str) else inner
        for name, inner in content.items()
    }


def _digested(text: str) -> dict[str, Any]:
    octets = text.encode()
    return {"sha256": hashlib.sha256(octets).hexdigest(), "bytes": len(octets)}
