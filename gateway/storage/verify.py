"""Is this log what was once signed? Everything is computed again from the records' bytes."""

import sqlite3
from collections.abc import Iterator, Sequence
from contextlib import closing
from enum import StrEnum
from pathlib import Path
from typing import Any

from gateway.audit.checkpoint import BadCheckpoint, VerifierKey, open_checkpoint
from gateway.audit.merkle import leaf_hash
from gateway.audit.record import COLUMNS, columns_of
from gateway.audit.tiles import TILE_LEAVES, TiledTree
from gateway.domain._value import value
from gateway.errors import ConfigError
from gateway.storage.connection import open_reader
from gateway.storage.database import CHECKPOINT, DATABASE
from gateway.storage.keys import audit_key
from gateway.storage.reader import AuditReader

_PAGE = 2000
_BEFORE_ALL = -(2**63)


class Finding(StrEnum):
    OK = "ok"
    ALTERED = "altered"
    """Something in the log is not what was written."""
    INCOMPLETE = "incomplete"
    """Records are missing at the end, or there is nothing signed to compare with."""


@value
class Verification:
    finding: Finding
    size: int
    """How many records were found good before the first bad one."""
    signed: int
    """How many of these a checkpoint vouches for; the others are only consistent by themselves."""
    checkpoints: int
    """How many checkpoints were compared."""
    root: bytes
    """The root over `size` records."""
    first_bad: int | None = None
    """Leaf index of the first record that is bad or missing, or that may be."""
    reason: str = ""

    @property
    def exit_status(self) -> int:
        """0 if the log is what was signed, else 1."""
        return 0 if self.finding is Finding.OK else 1


class _Bad(Exception):
    """Ends the pass."""

    def __init__(self, finding: Finding, reason: str, first_bad: int | None) -> None:
        super().__init__(reason)
        self.finding = finding
        self.reason = reason
        self.first_bad = first_bad


@value
class _Head:
    origin: str
    size: int
    root: bytes


def verify(
    data_dir: Path, verifier: VerifierKey, *, checkpoints: Sequence[tuple[str, str]] = ()
) -> Verification:
    """Compare the log in `data_dir` with itself and with every checkpoint there is.

    `checkpoints` are further ones, kept elsewhere, as pairs of a name and a note: only they can
    show that the log's end is missing along with the log's own checkpoints.

    Raises:
        ConfigError: There is no log.

    """
    newest = data_dir / CHECKPOINT
    given = list(checkpoints)
    if newest.exists():
        given.append((str(newest), newest.read_text("utf-8", "replace")))
    connection = open_reader(data_dir / DATABASE)
    try:
        return _Pass(connection).run(verifier, given)
    finally:
        connection.close()


def own_verifier(data_dir: Path) -> VerifierKey:
    """Return who signs the log in `data_dir`, from its own key; others are given that by `str`.

    Raises:
        ConfigError: There is no log, or no key.

    """
    if not (data_dir / "audit.key").exists():
        raise ConfigError(f"{data_dir / 'audit.key'} is missing: nothing says who signed the log")
    try:
        with closing(AuditReader.open(data_dir / DATABASE)) as reader:
            log_id = reader.log_id
    except sqlite3.Error as error:
        raise ConfigError(f"{data_dir / DATABASE} cannot be read: {error}") from error
    if not log_id:
        raise ConfigError(f"{data_dir / DATABASE} does not name its log")
    return VerifierKey.of(log_id, audit_key(data_dir))


class _Pass:
    """One pass over the log, from the first record to the last."""

    def __init__(self, connection: sqlite3.Connection) -> None:
        self._connection = connection
        self._tree = TiledTree()
        self._signed = 0
        self._compared = 0

    def run(self, verifier: VerifierKey, given: Sequence[tuple[str, str]]) -> Verification:
        try:
            heads = self._heads(verifier, given)
            self._follow(heads)
            self._end(heads)
        except _Bad as bad:
            return self._verification(bad.finding, bad.first_bad, bad.reason)
        except sqlite3.DatabaseError as error:
            reason = f"the database cannot be read: {error}"
            return self._verification(Finding.ALTERED, self._tree.size, reason)
        return self._verification(Finding.OK, None, "")

    def _verification(self, finding: Finding, first_bad: int | None, reason: str) -> Verification:
        return Verification(
            finding=finding,
            size=self._tree.size,
            signed=self._signed,
            checkpoints=self._compared,
            root=self._tree.root(),
            first_bad=first_bad,
            reason=reason,
        )

    def _heads(self, verifier: VerifierKey, given: Sequence[tuple[str, str]]) -> list[_Head]:
        stored = self._connection.execute("SELECT size, note FROM checkpoints").fetchall()
        notes = [(f"checkpoint {size}", note) for size, note in stored]
        heads = []
        for origin, note in (*notes, *given):
            try:
                head = open_checkpoint(note, verifier)
            except BadCheckpoint as error:
                raise _Bad(Finding.ALTERED, f"{origin}: {error}", None) from error
            heads.append(_Head(origin=origin, size=head.size, root=head.root))
        return sorted(heads, key=lambda head: head.size)

    def _follow(self, heads: Sequence[_Head]) -> None:
        """Grow the tree record by record, comparing each tile and each head on the way."""
        waiting = list(reversed(heads))
        self._compare(waiting)
        for index, stored, columns, body in self._records():
            expected = self._tree.size
            if index != expected:
                raise _Bad(
                    Finding.ALTERED, f"record {index} stands where {expected} belongs", expected
                )
            _check(index, stored, columns, body)
            self._tree, tiles = self._tree.extend((stored,))
            for root in tiles:
                self._compare_tile(expected // TILE_LEAVES, root)
            self._compare(waiting)

    def _records(self) -> Iterator[tuple[int, bytes, tuple[Any, ...], bytes]]:
        last = _BEFORE_ALL
        sql = (
            f"SELECT leaf_index, leaf_hash, CAST(body AS BLOB), {', '.join(COLUMNS)}"  # noqa: S608 - fixed
            " FROM audit WHERE leaf_index > ? ORDER BY leaf_index LIMIT ?"
        )
        while page := self._connection.execute(sql, (last, _PAGE)).fetchall():
            for index, leaf, body, *columns in page:
                yield index, leaf, tuple(columns), body
            last = page[-1][0]

    def _compare_tile(self, tile: int, root: bytes) -> None:
        row = self._connection.execute("SELECT root FROM tiles WHERE tile = ?", (tile,)).fetchone()
        if row != (root,):
            first = max(self._signed, tile * TILE_LEAVES)
            raise self._changed(first, f"tile {tile}")

    def _compare(self, waiting: list[_Head]) -> None:
        """Compare the heads of the tree's present size, which are at the end of `waiting`."""
        while waiting and waiting[-1].size == self._tree.size:
            head = waiting.pop()
            if self._tree.root() != head.root:
                raise self._changed(self._signed, head.origin)
            self._signed = head.size
            self._compared += 1

    def _changed(self, first: int, against: str) -> _Bad:
        last = self._tree.size - 1
        reason = f"one of the records {first} to {last} was changed or moved: see {against}"
        return _Bad(Finding.ALTERED, reason, first)

    def _end(self, heads: Sequence[_Head]) -> None:
        size = self._tree.size
        if not heads:
            raise _Bad(Finding.INCOMPLETE, "there is no checkpoint to compare with", None)
        largest = heads[-1]
        if largest.size > size:
            reason = f"records {size} to {largest.size - 1} are missing: see {largest.origin}"
            raise _Bad(Finding.INCOMPLETE, reason, size)
        (tiles,) = self._connection.execute("SELECT count(*) FROM tiles").fetchone()
        if tiles != size // TILE_LEAVES:
            raise _Bad(Finding.INCOMPLETE, f"there are tiles of records after {size - 1}", size)


def _check(index: int, stored: bytes, columns: tuple[Any, ...], body: bytes) -> None:
    """Compare a record's bytes with its leaf hash and its columns."""
    if leaf_hash(body) != stored:
        raise _Bad(Finding.ALTERED, f"record {index} was changed", index)
    try:
        expected = columns_of(body)
    except ValueError as error:
        raise _Bad(Finding.ALTERED, f"record {index} is no record", index) from error
    if columns != expected:
        raise _Bad(Finding.ALTERED, f"record {index} has other columns than content", index)
