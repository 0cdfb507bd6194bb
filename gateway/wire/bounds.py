"""How long a name may be that others choose: one bound, and the table of where names stand.

A name is kept, compared and recorded long after the message that brought it is gone. What a tool is
given, an argument's value, is no name: the size of the body bounds it.
"""

from collections.abc import Iterator, Mapping
from typing import Any, Final

LONGEST_NAME: Final = 8 * 1024
"""Bytes in UTF-8."""

_WIDEST: Final = 4
"""Bytes of UTF-8 that a character takes at most."""
SURELY_WITHIN: Final = LONGEST_NAME // _WIDEST
"""Characters that are never more than that, whichever they are."""
_EACH: Final = "*"
"""Whatever stands here: every member of an object, every item of an array."""
_KEYS: Final = "#"
"""The names of an object's members."""

NAMES: Final = (
    (_KEYS,),
    ("name",),
    ("uri",),
    ("cursor",),
    ("level",),
    ("taskId",),
    ("requestId",),
    ("progressToken",),
    ("protocolVersion",),
    ("run",),
    ("ref", _EACH),
    ("argument", "name"),
    ("context", "arguments", _KEYS),
    ("arguments", _KEYS),
    ("inputResponses", _KEYS),
    ("capabilities", _KEYS),
    ("capabilities", "extensions", _KEYS),
    ("clientInfo", _EACH),
    ("notifications", _KEYS),
    ("notifications", "resourceSubscriptions", _EACH),
    ("task", "tools", _EACH),
    ("_meta", _KEYS),
    ("_meta", "progressToken"),
    ("_meta", "traceparent"),
    ("_meta", "tracestate"),
    ("_meta", "io.modelcontextprotocol/protocolVersion"),
    ("_meta", "io.modelcontextprotocol/logLevel"),
    ("_meta", "io.modelcontextprotocol/clientInfo", _EACH),
    ("_meta", "io.modelcontextprotocol/clientCapabilities", _KEYS),
    ("_meta", "io.modelcontextprotocol/clientCapabilities", "extensions", _KEYS),
    ("_meta", "douane/run"),
    ("_meta", "douane/task", "tools", _EACH),
)
"""Every place in a client's params where a name stands. The method and the id of a message, be it a
client's or a server's, and the headers that mean something are bounded where they are read."""


def within(text: str) -> bool:
    """Whether `text` may be a name."""
    if len(text) <= SURELY_WITHIN:
        return True
    return len(text.encode("utf-8", "surrogatepass")) <= LONGEST_NAME


def too_long(params: Mapping[str, Any]) -> str | None:
    """Return where in `params` a name is too long, as in `params.ref.uri`; `None` if none is."""
    for place in NAMES:
        if not all(map(within, _texts(params, place))):
            at = ".".join(step for step in place if step not in {_EACH, _KEYS})
            return f"params.{at}" if at else "params"
    return None


def _texts(node: Any, place: tuple[str, ...]) -> Iterator[str]:
    if not place:
        if isinstance(node, str):
            yield node
        return
    step, rest = place[0], place[1:]
    if isinstance(node, dict):
        if step == _KEYS:
            # There may be many, of which none is long.
            yield from (name for name in node if len(name) * _WIDEST > LONGEST_NAME)
        elif step == _EACH:
            for inner in node.values():
                yield from _texts(inner, rest)
        elif step in node:
            yield from _texts(node[step], rest)
    elif isinstance(node, list) and step == _EACH:
        for inner in node:
            yield from _texts(inner, rest)
