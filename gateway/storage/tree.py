"""Reading the stored tree: its right edge, its earlier roots, the roots of its parts."""

from gateway.audit.merkle import CompactRange
from gateway.audit.tiles import TILE_HEIGHT, TILE_LEAVES, TiledTree
from gateway.errors import ConfigError
from gateway.storage.connection import Readable, columns_in


class Pruned(ConfigError):
    """What a proof needs has left the log; the archive has it."""


def front_of(connection: Readable) -> int:
    """Return the leaf index of the first record that retention has left in the log."""
    if not columns_in(connection, "log_front"):  # a log from before there was retention
        return 0
    row = connection.execute("SELECT first FROM log_front").fetchone()
    return 0 if row is None else int(row[0])


def provable(connection: Readable, size: int) -> bool:
    """Say whether the root of the first `size` records can be computed from what is left."""
    return size % TILE_LEAVES == 0 or size - size % TILE_LEAVES >= front_of(connection)


def load_tree(connection: Readable) -> TiledTree:
    """Return the tree of everything in the log, without reading every record.

    Raises:
        ConfigError: Tiles or the last records are missing.

    """
    last, tiles = connection.execute(
        "SELECT (SELECT max(leaf_index) FROM audit), (SELECT count(*) FROM tiles)"
    ).fetchone()
    size = 0 if last is None else last + 1
    if size // TILE_LEAVES != tiles:
        raise ConfigError(f"the audit log is damaged: {size} records, but {tiles} tiles")
    return tree_at(connection, size)


def tree_at(connection: Readable, size: int) -> TiledTree:
    """Return the tree of the first `size` records.

    Raises:
        ConfigError: Not all of them are there.

    """
    complete = size - size % TILE_LEAVES
    tiles = CompactRange().extend(_tiles(connection, range(complete)), height=TILE_HEIGHT)
    return TiledTree(tiles=tiles, tail=tuple(_leaves(connection, range(complete, size))))


def root_of(connection: Readable, part: range) -> bytes:
    """Return the root over a range of leaves that begins where a subtree of its size can.

    Raises:
        ConfigError: Not all of them are there.

    """
    if part.start % TILE_LEAVES or len(part) < TILE_LEAVES:
        return CompactRange().extend(_leaves(connection, part)).root()
    complete = part.stop - part.stop % TILE_LEAVES
    tiles = _tiles(connection, range(part.start, complete))
    edge = CompactRange().extend(tiles, height=TILE_HEIGHT)
    return edge.extend(_leaves(connection, range(complete, part.stop))).root()


def _tiles(connection: Readable, leaves: range) -> list[bytes]:
    first, stop = leaves.start // TILE_LEAVES, leaves.stop // TILE_LEAVES
    rows = connection.execute(
        "SELECT root FROM tiles WHERE tile >= ? AND tile < ? ORDER BY tile", (first, stop)
    ).fetchall()
    if len(rows) != stop - first:
        raise ConfigError(f"the audit log is damaged: tiles {first} to {stop} are not all there")
    return [root for (root,) in rows]


def _leaves(connection: Readable, part: range) -> list[bytes]:
    rows = connection.execute(
        "SELECT leaf_hash FROM audit WHERE leaf_index >= ? AND leaf_index < ? ORDER BY leaf_index",
        (part.start, part.stop),
    ).fetchall()
    if len(rows) != len(part):
        if part.start < front_of(connection):
            raise Pruned(
                f"the hashes of records {part.start} to {part.stop - 1} have left the log with "
                f"their records; what begins and ends at a multiple of {TILE_LEAVES} can still be "
                "proven, and the archive holds the rest"
            )
        raise ConfigError(
            f"the audit log is damaged: records {part.start} to {part.stop} are not all there"
        )
    return [leaf for (leaf,) in rows]
