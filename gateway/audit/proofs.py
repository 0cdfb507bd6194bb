"""Which parts of the Merkle tree prove something of the log (RFC 9162 section 2.1)."""


def inclusion_path(index: int, size: int) -> tuple[range, ...]:
    """Return the leaf ranges whose roots prove leaf `index`, in a proof's order.

    RFC 9162 section 2.1.3.1.

    Raises:
        ValueError: There is no such leaf in a tree of `size`.

    """
    if not 0 <= index < size:
        raise ValueError(f"no leaf {index} in a tree of {size}")
    path, start, stop = [], 0, size
    while stop - start > 1:
        middle = start + _split(stop - start)
        if index < middle:
            path.append(range(middle, stop))
            stop = middle
        else:
            path.append(range(start, middle))
            start = middle
    return tuple(reversed(path))


def consistency_path(old: int, new: int) -> tuple[range, ...]:
    """Return the leaf ranges whose roots prove that a tree of `old` leaves grew to one of `new`.

    RFC 9162 section 2.1.4.1. It is empty where there is nothing to prove.

    Raises:
        ValueError: The first tree is empty or larger than the second.

    """
    if not 0 < old <= new:
        raise ValueError(f"a tree of {old} leaves proves nothing about one of {new}")
    path, start, stop = [], 0, new
    while stop != old:
        middle = start + _split(stop - start)
        if old <= middle:
            path.append(range(middle, stop))
            stop = middle
        else:
            path.append(range(start, middle))
            start = middle
    if start:  # else the old root is itself a node, and the verifier has it already
        path.append(range(start, stop))
    return tuple(reversed(path))


def _split(size: int) -> int:
    """Return the largest power of two smaller than `size`."""
    return 1 << ((size - 1).bit_length() - 1)
