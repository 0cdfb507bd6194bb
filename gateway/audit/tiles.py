"""The tree as it is stored: a root for every 256 leaves, so that proofs and restarts are quick."""

from collections.abc import Sequence
from typing import Self

from gateway.audit.merkle import CompactRange
from gateway.domain._value import value

TILE_HEIGHT = 8
TILE_LEAVES = 1 << TILE_HEIGHT
"""How many leaves one stored root stands for (C2SP tlog-tiles)."""


@value
class TiledTree:
    """A tree as its complete tiles and the leaves after them."""

    tiles: CompactRange = CompactRange()
    tail: tuple[bytes, ...] = ()
    """Fewer than a tile's leaf hashes."""

    @property
    def size(self) -> int:
        """How many leaves there are."""
        return self.tiles.size + len(self.tail)

    def extend(self, leaves: Sequence[bytes]) -> tuple[Self, tuple[bytes, ...]]:
        """Return the tree after `leaves`, and the roots of the tiles that they complete."""
        tail, completed = (*self.tail, *leaves), []
        while len(tail) >= TILE_LEAVES:
            completed.append(tile_root(tail[:TILE_LEAVES]))
            tail = tail[TILE_LEAVES:]
        tiles = self.tiles.extend(completed, height=TILE_HEIGHT) if completed else self.tiles
        return type(self)(tiles=tiles, tail=tail), tuple(completed)

    def root(self) -> bytes:
        """Return the tree's root hash."""
        return self.tiles.extend(self.tail).root()


def tile_root(leaves: Sequence[bytes]) -> bytes:
    """Return the root over a tile's leaf hashes."""
    return CompactRange().extend(leaves).root()
