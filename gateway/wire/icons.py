"""Icons in what a server answers or asks: those that no client may load are left out.

A definition with such a one is not pinned, and a resource not listed. What a result links to or embeds
nobody has approved, so it goes on without.
"""

from collections.abc import Mapping
from dataclasses import replace
from typing import Any, Final

from gateway.domain.icons import icons_are_safe
from gateway.wire import jsontext
from gateway.wire.server_message import ServerMessage

_ICONS: Final = "icons"
_SHOWN: Final = frozenset({"content", "contents", "messages", "inputRequests"})
"""Members of results and params that hold what a client shows. Lists are looked at item by item."""
_ITS_OWN: Final = frozenset({"structuredContent", "arguments", "input", "requestedSchema", "_meta"})
"""Members in which names mean what a tool says that they mean."""


def without_unsafe_icons(message: ServerMessage) -> ServerMessage:
    """Return `message` without icons that no client may load; the very same, if there are none."""
    if not (b'"icons"' in message.data or b"\\u" in message.data):
        return message
    kept = {
        part: _shown(inner) if part in {"result", "params"} else inner
        for part, inner in message.content.items()
    }
    if kept == message.content:
        return message
    return replace(message, content=kept, data=jsontext.write(kept).encode())


def _shown(part: Mapping[str, Any]) -> Mapping[str, Any]:
    return {name: _loadable(inner) if name in _SHOWN else inner for name, inner in part.items()}


def _loadable(node: Any) -> Any:
    if isinstance(node, list):
        return [_loadable(inner) for inner in node]
    if not isinstance(node, dict):
        return node
    unsafe = {_ICONS} if not icons_are_safe(node) else frozenset[str]()
    return {
        name: inner if name in _ITS_OWN else _loadable(inner)
        for name, inner in node.items()
        if name not in unsafe
    }
