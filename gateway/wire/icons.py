"""Icons in what a server answers or asks: those that no client may load are left out.

A definition with such a one is not pinned, and a resource not listed. What a result links to or embeds
nobody has approved, so it goes on without.
"""

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
    kept = dict(message.content)
    for part in kept.keys() & {"result", "params"}:
        shown = kept[part].keys() & _SHOWN
        kept[part] = {**kept[part], **{name: _loadable(kept[part][name]) for name in shown}}
    if kept == message.content:
        return message
    return replace(message, content=kept, data=jsontext.write(kept).encode())


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
