"""The Merkle tree over the log: roots, proofs and their verification (RFC 9162 section 2.1)."""

import hashlib
from collections.abc import Iterable
from typing import Self

from gateway.domain._value import value

HASH_BYTES = 32

EMPTY_ROOT = hashlib.sha256(b"").digest()
"""The root of a tree without leaves (RFC 9162 section 2.1.1)."""


def leaf_hash(data: bytes) -> bytes:
    """Hash one record; the prefix keeps a leaf from passing for a node."""
    return hashlib.sha256(b"\x00" + data).digest()


def node_hash(left: bytes, right: bytes) -> bytes:
    """Hash two subtrees into the one above them."""
    return hashlib.sha256(b"\x01" + left + right).digest()


@value
class CompactRange:
    """A tree of `size` leaves, kept as the roots of its perfect subtrees, largest first.

    There is one root for every 1 in the binary form of `size`, so it stays tiny, and it is all
    that is needed to append and to compute the root.
    """

    size: int = 0
    roots: tuple[bytes, ...] = ()

    def extend(self, subtrees: Iterable[bytes], *, height: int = 0) -> Self:
        """Return the range after the roots of perfect trees of `2**height` leaves are appended.

        At height 0 these are leaf hashes.

        Raises:
            ValueError: `size` is no multiple of `2**height`, so such a tree does not fit there.

        """
        if self.size % (1 << height):
            raise ValueError(f"no tree of height {height} fits after {self.size} leaves")
        count, roots = self.size >> height, list(self.roots)
        for subtree in subtrees:
            merged, below = subtree, count
            while below & 1:
                merged = node_hash(roots.pop(), merged)
                below >>= 1
            roots.append(merged)
            count += 1
        return type(self)(size=count << height, roots=tuple(roots))

    def root(self) -> bytes:
        """Return the tree's root hash."""
        if not self.roots:
            return EMPTY_ROOT
        *others, merged = self.roots
        for left in reversed(others):
            merged = node_hash(left, merged)
        return merged


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
