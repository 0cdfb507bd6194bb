"""How much there is to read in a JSON text, told before anything of it is built."""

from itertools import accumulate

MOST_NODES = 100_000
"""Values and member names in one text, a container counted twice. Each costs a hundred times what its
bytes do."""

_QUICK_BYTES = 4096
"""A text of so few is no work, whatever stands in it."""
_BYTES_OF_A_NODE = 200
"""How many bytes of a string cost as much as a node does."""

_STEP = tuple({0x5B: 1, 0x7B: 1, 0x5D: -1, 0x7D: -1}.get(octet, 0) for octet in range(256))
_NOT_BRACKETS = bytes(octet for octet in range(256) if not _STEP[octet])
_NOT_MARKS = bytes(octet for octet in range(256) if octet not in b",:[{")


def weight(text: bytes) -> int:
    """Return how much work `text` can be, in nodes: it is never more.

    Marks within strings count as if they were structure: that is quick to tell.
    """
    if len(text) <= _QUICK_BYTES:
        return 0
    return _marks(text) + len(text) // _BYTES_OF_A_NODE


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
    if _marks(structure) > MOST_NODES:
        raise _too_many()
    brackets = structure.translate(None, _NOT_BRACKETS)
    if max(accumulate(map(_STEP.__getitem__, brackets)), default=0) > depth:
        raise ValueError(f"nested deeper than {depth} levels")


def _marks(text: bytes) -> int:
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
