"""Is this log what was once signed? Everything is computed again from the records' bytes."""

import sqlite3
from collections.abc import Callable, Iterator, Sequence
from contextlib import closing
from enum import StrEnum
from pathlib import Path
from typing import Any

from gateway.audit.checkpoint import BadCheckpoint, VerifierKey, open_checkpoint
from gateway.audit.cosignature import Sightings, Witnessed, WitnessKey
from gateway.audit.links import NO_CHECKPOINT, NOTHING, Signed, is_link
from gateway.audit.merkle import leaf_hash
from gateway.audit.record import COLUMNS, columns_of
from gateway.audit.tiles import TILE_HEIGHT, TILE_LEAVES, TiledTree
from gateway.domain._value import value
from gateway.domain.audit import TreeHead
from gateway.errors import ConfigError
from gateway.storage.connection import Readable, Unanswered, columns_in, open_reader
from gateway.storage.cosignatures import cosignatures
from gateway.storage.database import CHECKPOINT, DATABASE
from gateway.storage.keys import audit_key
from gateway.storage.reader import AuditReader
from gateway.storage.recovery import FOUND
from gateway.storage.removals import Removal, removal_in
from gateway.storage.tree import front_of

_PAGE = 2000
_BEFORE_ALL = -(2**63)
_NEVER = 2**63
Filed = Callable[[Sequence[Any]], tuple[Any, ...]]
_KIND, _CODE = COLUMNS.index("kind"), COLUMNS.index("code")


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
    front: int = 0
    """How many records have left the log by retention; of these the tree's nodes are compared."""
    unproven: int = 0
    """Checkpoints of sizes within that part, which can be compared with the archive only."""
    first_bad: int | None = None
    """Leaf index of the first record that is bad or missing, or that may be."""
    reason: str = ""
    witnessed: tuple[Witnessed, ...] = ()
    """The newest checkpoint that each given witness has cosigned."""

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
    head: TreeHead
    ours: bool
    """Whether it is one of those that the log itself keeps."""

    @property
    def size(self) -> int:
        return self.head.size


def verify(
    data_dir: Path,
    verifier: VerifierKey,
    *,
    checkpoints: Sequence[tuple[str, str]] = (),
    witnesses: Sequence[WitnessKey] = (),
) -> Verification:
    """Compare the log in `data_dir` with itself and with every checkpoint there is.

    `checkpoints` are further ones, kept elsewhere, as pairs of a name and a note: only they can
    show that the log's end is missing along with the log's own checkpoints. Each of `witnesses`
    has to have cosigned a checkpoint of the log's own or one of these.

    Raises:
        ConfigError: There is no log.

    """
    newest = data_dir / CHECKPOINT
    given = list(checkpoints)
    if newest.exists():
        given.append((str(newest), newest.read_text("utf-8", "replace")))
    with closing(open_reader(data_dir / DATABASE)) as connection:
        return verify_in(connection, verifier, checkpoints=given, witnesses=witnesses)


def verify_in(
    connection: Readable,
    verifier: VerifierKey,
    *,
    checkpoints: Sequence[tuple[str, str]] = (),
    witnesses: Sequence[WitnessKey] = (),
    filed: Filed = tuple,
) -> Verification:
    """Compare a log, wherever it lies, as `verify` does.

    `filed` says what its columns are of what its records say.

    Raises:
        Unanswered: Nobody could be asked, so that nothing was found.

    """
    front = _front_now(connection)
    while True:
        found = _Pass(connection, Sightings(witnesses), filed).run(verifier, checkpoints)
        before, front = front, _front_now(connection)
        if found.finding is Finding.OK or front == before:
            return found
        # What was read had left the log meanwhile: nothing is wrong with that by itself.


def _front_now(connection: Readable) -> int:
    try:
        return front_of(connection)
    except Unanswered:
        raise
    except sqlite3.DatabaseError:  # the pass itself says so
        return 0


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

    def __init__(self, connection: Readable, sightings: Sightings, filed: Filed) -> None:
        self._connection = connection
        self._filed = filed
        self._sightings = sightings
        self._without: list[int] = []
        """Sizes that are cosigned here, and have no checkpoint any more."""
        self._tree = TiledTree()
        self._signed = 0
        self._compared = 0
        self._unproven = 0
        self._front = 0
        self._removal: Removal | None = None
        self._linked_from = _NEVER
        """From which record on checkpoints are linked: the first that such a gateway began with."""

    def run(self, verifier: VerifierKey, given: Sequence[tuple[str, str]]) -> Verification:
        try:
            heads = self._heads(verifier, given)
            self._begin(heads)
            self._follow(heads, verifier)
            self._end(heads)
            self._end_of_front()
            self._links(verifier, heads)
        except _Bad as bad:
            return self._verification(bad.finding, bad.first_bad, bad.reason)
        except Unanswered:
            raise
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
            front=self._front,
            unproven=self._unproven,
            first_bad=first_bad,
            reason=reason,
            witnessed=self._sightings.found,
        )

    def _heads(self, verifier: VerifierKey, given: Sequence[tuple[str, str]]) -> list[_Head]:
        # Before the checkpoints: a gateway that runs beside this adds one first, then its lines.
        lines = cosignatures(self._connection)
        stored = self._connection.execute("SELECT size, note FROM checkpoints").fetchall()
        notes = [(f"checkpoint {size}", note + lines.pop(size, "")) for size, note in stored]
        self._without = sorted(lines)
        heads = []
        for place, (origin, note) in enumerate((*notes, *given)):
            try:
                head = open_checkpoint(note, verifier)
            except BadCheckpoint as error:
                raise _Bad(Finding.ALTERED, f"{origin}: {error}", None) from error
            ours = place < len(notes)
            if ours and head.size != stored[place][0]:
                reason = f"{origin} is one of {head.size} records"
                raise _Bad(Finding.ALTERED, reason, min(head.size, stored[place][0]))
            heads.append(_Head(origin=origin, head=head, ours=ours))
        return sorted(heads, key=lambda head: head.size)

    def _begin(self, heads: list[_Head]) -> None:
        """Take the part that has left the log as its tiles' roots, comparing what can be."""
        self._front = front_of(self._connection)
        if self._front % TILE_LEAVES:
            raise _Bad(Finding.ALTERED, f"record {self._front} cannot be the first one", 0)
        rows = self._connection.execute(
            "SELECT tile, root FROM tiles WHERE tile < ? ORDER BY tile",
            (self._front // TILE_LEAVES,),
        ).fetchall()
        waiting = [head for head in reversed(heads) if head.size <= self._front]
        del heads[: len(waiting)]
        for expected, (tile, root) in enumerate(rows):
            self._compare_front(waiting)
            if tile != expected:
                break
            tiles = self._tree.tiles.extend((root,), height=TILE_HEIGHT)
            self._tree = TiledTree(tiles=tiles)
        self._compare_front(waiting)
        if self._tree.size != self._front:
            size = self._tree.size
            raise _Bad(Finding.ALTERED, f"the tile of the records from {size} on is missing", size)

    def _compare_front(self, waiting: list[_Head]) -> None:
        self._compare(waiting)
        while waiting and waiting[-1].size < self._tree.size + TILE_LEAVES:
            waiting.pop()
            self._unproven += 1

    def _follow(self, heads: Sequence[_Head], verifier: VerifierKey) -> None:
        """Grow the tree record by record, comparing each tile and each head on the way."""
        waiting = list(reversed(heads))
        self._compare(waiting)
        for index, stored, columns, body in self._records():
            expected = self._tree.size
            if index != expected:
                raise _Bad(
                    Finding.ALTERED, f"record {index} stands where {expected} belongs", expected
                )
            _check(index, stored, columns, body, self._filed)
            self._removal = removal_in(columns, body, verifier) or self._removal
            if columns[_KIND] == "system" and columns[_CODE] in FOUND:
                self._linked_from = min(self._linked_from, index)
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
            found = waiting.pop()
            if self._tree.root() != found.head.root:
                raise self._changed(self._signed, found.origin)
            try:
                self._sightings.take(found.head)
            except BadCheckpoint as error:
                raise _Bad(Finding.ALTERED, f"{found.origin}: {error}", None) from error
            self._signed = found.size
            self._compared += 1

    def _changed(self, first: int, against: str) -> _Bad:
        last = self._tree.size - 1
        reason = f"one of the records {first} to {last} was changed or moved: see {against}"
        return _Bad(Finding.ALTERED, reason, first)

    def _end_of_front(self) -> None:
        """Compare what has left the log with the record that says so."""
        if not self._front:
            return
        said = self._removal
        last = self._front - 1
        if said is None or said.stop < self._front:
            reason = (
                f"records 0 to {last} are missing, and no signed record says that they were removed"
            )
            raise _Bad(Finding.ALTERED, reason, 0)
        rows = self._connection.execute(
            "SELECT root FROM tiles WHERE tile < ? ORDER BY tile", (said.stop // TILE_LEAVES,)
        ).fetchall()
        tree = TiledTree().tiles.extend((root for (root,) in rows), height=TILE_HEIGHT)
        if tree.size != said.stop or tree.root() != said.root:
            reason = f"records 0 to {last} are others than the record of their removal says"
            raise _Bad(Finding.ALTERED, reason, 0)

    def _links(self, verifier: VerifierKey, heads: Sequence[_Head]) -> None:
        """Look for checkpoints that were taken away or exchanged."""
        if "link" not in columns_in(self._connection, "checkpoints"):
            return
        rows = self._connection.execute(
            "SELECT size, note, previous, link FROM checkpoints ORDER BY size"
        ).fetchall()
        before, linked = NOTHING, False
        for size, note, previous, link in rows:
            here = Signed(size=size, note=note)
            if link is None and not linked and size <= self._linked_from:
                before = here  # from before there were links
                continue
            linked = True
            if not is_link(link or "", before, here, verifier):
                known = previous if isinstance(previous, int) else NO_CHECKPOINT
                reason = f"a checkpoint before that of {size} records is missing (of {known})"
                raise _Bad(Finding.ALTERED, reason, max(before.size, 0))
            before = here
        kept = {size for size, *_ in rows}
        for head in heads:
            if not head.ours and head.size not in kept:
                reason = (
                    f"{head.origin}: the log's own checkpoint of {head.size} records is missing"
                )
                raise _Bad(Finding.ALTERED, reason, head.size)

    def _end(self, heads: Sequence[_Head]) -> None:
        size = self._tree.size
        if not heads and not self._compared:
            raise _Bad(Finding.INCOMPLETE, "there is no checkpoint to compare with", None)
        largest = heads[-1] if heads else None
        if largest is not None and largest.size > size:
            reason = f"records {size} to {largest.size - 1} are missing"
            if self._signed < size:
                reason += f", or as many others from {self._signed} on"
            reason += f": see {largest.origin}"
            raise _Bad(Finding.INCOMPLETE, reason, size)
        (tiles,) = self._connection.execute("SELECT count(*) FROM tiles").fetchone()
        if tiles != size // TILE_LEAVES:
            raise _Bad(Finding.INCOMPLETE, f"there are tiles of records after {size - 1}", size)
        for cosigned in self._without:
            reason = f"a witness has cosigned {cosigned} records, and their checkpoint is missing"
            raise _Bad(Finding.INCOMPLETE, reason, None)
        if self._sightings.missing:
            raise _Bad(Finding.INCOMPLETE, self._sightings.missing, None)


def _check(index: int, stored: bytes, columns: tuple[Any, ...], body: bytes, filed: Filed) -> None:
    """Compare a record's bytes with its leaf hash and its columns."""
    if leaf_hash(body) != stored:
        raise _Bad(Finding.ALTERED, f"record {index} was changed", index)
    try:
        expected = filed(columns_of(body))
    except ValueError as error:
        raise _Bad(Finding.ALTERED, f"record {index} is no record", index) from error
    if columns != expected:
        raise _Bad(Finding.ALTERED, f"record {index} has other columns than content", index)
