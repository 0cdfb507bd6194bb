"""The Merkle tree over the log: hashes and roots (RFC 9162 section 2.1)."""

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
