"""How much there is to read in a JSON text, told before anything of it is built; and what was built of it."""

from collections.abc import Iterator
from itertools import accumulate
from typing import Any

MOST_NODES = 100_000
"""Values and member names in one text, a container counted twice. Each costs a hundred times what its
bytes do."""

_QUICK_BYTES = 4096
"""A text of so few is no work, whatever stands in it."""
_BYTES_OF_A_NODE = 200
"""How many bytes of a string cost as much as a node does."""

_BYTES_OF_A_WIDE_NODE = 16
"""As many beyond ASCII: what is compared is folded and put into normal forms first."""

_SIGNS_OF_A_WIDE_NODE = 8

_ASCII = bytes(range(128))

_LEAST_BYTES = 4
_LONG_BYTES = 1024 * 1024
"""A text of more is much work by itself."""

_STEP = tuple({0x5B: 1, 0x7B: 1, 0x5D: -1, 0x7D: -1}.get(octet, 0) for octet in range(256))
_NOT_BRACKETS = bytes(octet for octet in range(256) if not _STEP[octet])
_NOT_MARKS = bytes(octet for octet in range(256) if octet not in b",:[{")


def weight(text: bytes) -> int:
    """Return how much work `text` can be, in nodes: it is never more, unless it is much anyway.

    Marks within strings count as if they were structure: that is quick to tell. Where bytes alone
    are much, they are not gone through.
    """
    if len(text) <= _QUICK_BYTES:
        return 0
    by_bytes = len(text) // _BYTES_OF_A_NODE
    if len(text) > _LONG_BYTES:
        return by_bytes
    return marks_in(text) + by_bytes + _wide_in(text) // _BYTES_OF_A_WIDE_NODE


def most_nodes(octets: int) -> int:
    """Return how much work a message of `octets` may be, without looking at it.

    A value takes two bytes at least, and a byte of text is gone through some times over.
    """
    return octets // _LEAST_BYTES


def amount(content: Any, most: int) -> int:
    """Return how much work it is to go through `content`, which is or is to be JSON, in nodes.

    It is not counted further than to more than `most`: telling that much is little work.
    """
    found, waiting = 0, [content]
    while waiting and found <= most:
        node = waiting.pop()
        kind = type(node)
        if kind is str:
            found += len(node) // (_BYTES_OF_A_NODE if node.isascii() else _SIGNS_OF_A_WIDE_NODE)
        elif kind is bytes:
            found += len(node) // _BYTES_OF_A_NODE
        elif kind is dict:
            found += 2 * len(node)
            if found <= most:
                waiting += node.values()
                waiting.append("".join([name for name in node if type(name) is str]))
        elif kind is list or kind is tuple:
            found += len(node)
            if found <= most:
                waiting += node
    return found


def _wide_in(text: bytes) -> int:
    """Return about how many bytes beyond ASCII `text` says, as they are or as escapes."""
    said = 0 if text.isascii() else len(text.translate(None, _ASCII))
    return said + (2 * text.count(b"\\u") if b"\\" in text else 0)


def objects_in(content: Any) -> Iterator[dict[str, Any]]:
    """Yield every object in `content`, itself too, in no order that means anything."""
    waiting = [content]
    while waiting:
        node = waiting.pop()
        if isinstance(node, dict):
            yield node
            waiting += node.values()
        elif isinstance(node, list):
            waiting += node


def require_small(text: bytes, depth: int) -> None:
    """Return if reading `text` builds no more than it may. It need not be JSON.

    Raises:
        ValueError: It has more than `MOST_NODES`, or nests deeper than `depth`.

    """
    # Counting all marks is a hundred times cheaper than telling strings apart, and enough for most;
    # and no text has more nodes than bytes.
    marks = text if len(text) <= MOST_NODES else text.translate(None, _NOT_MARKS)
    if len(marks) <= MOST_NODES and marks.count(b"{") + marks.count(b"[") <= depth:
        return
    structure = _structure(text)
    if marks_in(structure) > MOST_NODES:
        raise _too_many()
    brackets = structure.translate(None, _NOT_BRACKETS)
    if max(accumulate(map(_STEP.__getitem__, brackets)), default=0) > depth:
        raise ValueError(f"nested deeper than {depth} levels")


def marks_in(text: bytes) -> int:
    """Count what stands before a value or behind a name: every node but the first has its own."""
    return len(text.translate(None, _NOT_MARKS))


def _structure(text: bytes) -> bytes:
    """Return `text` without what stands in its strings.

    Once the escaped quotes are gone, each other quote ends a string; and of a run of backslashes
    each second one is itself escaped.
    """
    plain = text.replace(b"\\\\", b"").replace(b'\\"', b"")
    if plain.count(b'"') > 2 * (MOST_NODES + 1):
        raise _too_many()
    return b'"'.join(plain.split(b'"')[::2])


def _too_many() -> ValueError:
    return ValueError(f"more than {MOST_NODES} values and names")
