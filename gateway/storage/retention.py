"""What is old leaves the log as files that prove themselves, and only then its table."""

import asyncio
import hashlib
import os
import sqlite3
import time
from abc import ABC, abstractmethod
from collections.abc import Awaitable, Callable, Iterator, Mapping
from contextlib import closing
from functools import partial
from pathlib import Path
from typing import Any, Protocol, TypeVar

from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

from gateway.audit.bundle import BundleWriter, NotABundle, bundle_lines
from gateway.audit.checkpoint import VerifierKey
from gateway.audit.tiles import TILE_LEAVES
from gateway.domain._value import value
from gateway.domain.audit import LogEntry
from gateway.errors import AuditUnavailable, ConfigError
from gateway.storage.connection import Readable, open_reader
from gateway.storage.database import DATABASE
from gateway.storage.files import create_private, private_directory, rename
from gateway.storage.removals import CODE, Removal, removed_in
from gateway.storage.segments import segment_verified, segment_verified_in
from gateway.storage.tree import front_of, root_of, tree_at
from gateway.storage.writer import Writer
from gateway.turns import Line

T = TypeVar("T")

SEGMENT_RECORDS = 256 * TILE_LEAVES
_PAGE = 1000
_AT_ONCE = 4 * TILE_LEAVES
"""Records that are removed in one transaction, which holds up the log for some ten milliseconds."""


class NotRemovable(ValueError):
    """Why records stay in the log."""


@value
class Segment:
    """A file that holds the records from `first` up to `stop`, which is not among them."""

    first: int
    stop: int
    path: str
    sha256: str

    @property
    def members(self) -> Mapping[str, Any]:
        return {
            "first": self.first,
            "last": self.stop - 1,
            "file": self.path,
            "sha256": self.sha256,
        }


@value
class Removed:
    """What a removal came to."""

    first: int
    stop: int
    root: bytes


@value
class Held:
    """What must not leave the log: the records from `first` on."""

    name: str
    first: int


class Jobs(Protocol):
    """What changes tables: each job is a transaction of its own."""

    async def run(self, job: Callable[[sqlite3.Connection], T]) -> T: ...


Record = Callable[[str, str, Mapping[str, Any]], Awaitable[LogEntry]]
"""Records what happened to the log: a code, a sentence, evidence; durable on return."""


class LogRetention(ABC):
    """Archives and removes what is old, wherever it lies. Nothing leaves the log that is nowhere else."""

    def __init__(
        self,
        jobs: Jobs,
        *,
        verifier: VerifierKey,
        key: Ed25519PrivateKey,
        archive: Path,
        record: Record,
        turn: Line,
    ) -> None:
        """Archive into the folder `archive`; what is done stands in the log, by `record`.

        `key` is the one that `verifier` knows: what is removed is signed.

        `turn` is the log's: one at a time archives or removes, to its end, whoever asked for it.
        """
        self._jobs = jobs
        self._verifier = verifier
        self._key = key
        self._archive = archive
        self._record = record
        self._turn = turn
        self._verified: set[Segment] = set()
        """Of those that are in the way of the next removal; while a digest is the same, so is the file."""

    async def archive(self, before_us: int) -> list[Segment]:
        """Write what is older into files, as far as it is signed, and return the new ones.

        Raises:
            OSError: A file could not be written.
            ConfigError: The log is damaged, so nothing of it is archived; or another file is
                where the next one belongs.
            NotRemovable: Another gateway archives records.
            AuditUnavailable: The log cannot be read, or what was done not be recorded.

        """
        return await self._turn.take(lambda: self._archived(before_us))

    async def _archived(self, before_us: int) -> list[Segment]:
        made: list[Segment] = []
        while True:
            segment = await _read(partial(self._written, before_us))
            if segment is None:
                return made
            try:
                await self._jobs.run(partial(_note_archive, segment=segment))
            except sqlite3.IntegrityError as error:
                told = f"the records from {segment.first} on are archived already"
                raise NotRemovable(told) from error
            told = f"records {segment.first} to {segment.stop - 1} are in {segment.path}"
            await self._record("log_archived", told, segment.members)
            made.append(segment)

    async def prune(self, before_us: int) -> Removed:
        """Remove what is older from the log, as far as files hold it.

        Raises:
            NotRemovable: Nothing of it may leave the log.
            AuditUnavailable: It could not be recorded or done, or only in part.

        """
        return await self._turn.take(lambda: self._pruned(before_us))

    async def _pruned(self, before_us: int) -> Removed:
        removal = await _read(partial(self._removable, before_us))
        first = removal.first
        told = f"records {first} to {removal.stop - 1} are removed from the log"
        entry = await self._record(CODE, told, removal.members(self._verifier.name, self._key))
        if await self._placed(entry) < removal.stop:
            raise AuditUnavailable("the removal is not in the log yet, so nothing is removed")
        for stop in self._stops(first, removal.stop):
            try:
                await self._jobs.run(partial(self._removed, stop=stop))
            except sqlite3.IntegrityError as error:
                raise NotRemovable(str(error)) from error
        return Removed(first=first, stop=removal.stop, root=removal.root)

    async def hold(self, name: str, since_us: int) -> int:
        """Keep all records of `since_us` or later in the log, until `name` is released.

        Returns the leaf index of the first that is held.

        Raises:
            ValueError: There is a hold of that name, which nothing but its release ends.

        """

        def job(connection: Readable) -> int:
            first = _first_since(connection, since_us)
            if any(one.name == name for one in _holds(connection)):
                raise ValueError(f"there is a hold {name} already; release it, or name another")
            connection.execute("INSERT INTO holds (name, first) VALUES (?, ?)", (name, first))
            return first

        try:
            return await self._jobs.run(job)
        except sqlite3.IntegrityError as error:
            raise ValueError(f"it could not be held: {error}") from error

    async def release(self, name: str) -> None:
        """Let go what `name` alone holds.

        Raises:
            ValueError: There is no such hold.

        """

        def job(connection: Readable) -> None:
            if not connection.execute("DELETE FROM holds WHERE name = ?", (name,)).rowcount:
                raise ValueError("there is no hold of that name")

        await self._jobs.run(job)

    async def holds(self) -> list[Held]:
        """Return every hold, the farthest back first."""

        def read() -> list[Held]:
            with closing(self._opened()) as connection:
                return _holds(connection)

        return await _read(read)

    @abstractmethod
    def _opened(self) -> Readable:
        """Return the log as it is read, to be closed."""

    @abstractmethod
    def _removed(self, connection: Any, *, stop: int) -> None:
        """Remove what stands before `stop`, if the laws allow it."""

    async def _placed(self, entry: LogEntry) -> int:
        """Return where a record stands; `UNPLACED` where it does not yet."""
        return entry.leaf_index

    def _stops(self, first: int, stop: int) -> Iterator[int]:
        """Yield up to where is removed in each transaction."""
        for end in range(first + _AT_ONCE, stop + _AT_ONCE, _AT_ONCE):
            yield min(end, stop)

    def _written(self, before_us: int) -> Segment | None:
        """Write the next segment; `None` if there is nothing to write."""
        with closing(self._opened()) as connection:
            since, older = self._since(connection), _older(connection, before_us)
            missing = _missing(_segments(connection, since, older), since, older)
            if not missing:
                return None
            first, stop = missing.start, min(missing.stop, missing.start + SEGMENT_RECORDS)
            size, note = connection.execute(
                "SELECT size, note FROM checkpoints WHERE size >= ? ORDER BY size LIMIT 1", (stop,)
            ).fetchone()
            writer = BundleWriter(
                key=self._verifier,
                size=size,
                root_of=partial(root_of, connection),
                selection={"first": str(first), "last": str(stop - 1)},
            )
            lines = bundle_lines(writer, _records(connection, first, stop), (size, note))
            private_directory(self._archive)
            name = f"{self._verifier.name.replace('/', '-')}-{first:012d}-{stop - 1:012d}.jsonl"
            path = self._archive / name
            passing, digest = _write(path, lines)
        found = segment_verified(passing, self._verifier)
        if not found.ok or found.records != stop - first:
            raise ConfigError(f"{passing} does not verify: {found.reason}")
        if path.exists() and _digest_of(path) != digest:
            raise ConfigError(f"{path} is another file, which is not replaced; move it away")
        rename(passing, path)
        segment = Segment(first=first, stop=stop, path=str(path), sha256=digest)
        self._verified.add(segment)
        return segment

    def _removable(self, before_us: int) -> Removal:
        with closing(self._opened()) as connection:
            front = front_of(connection)
            older = _older(connection, before_us)
            if older <= front:
                raise NotRemovable("no whole tile of 256 signed records is older")
            since = self._since(connection)
            segments = _segments(connection, since, older)
            missing = _missing(segments, since, older)
            if missing:
                told = f"records {missing.start} to {missing.stop - 1} are in no archive yet"
                raise NotRemovable(told)
            behind = connection.execute(
                "SELECT name, leaf_index FROM cursors WHERE leaf_index < ?", (older - 1,)
            ).fetchall()
            for name, done in behind:
                raise NotRemovable(f"{name} has had no records after {done} yet")
            for held in _holds(connection):
                if held.first < older:
                    raise NotRemovable(f"{held.name} holds the records from {held.first} on")
            self._verified.intersection_update(segments)
            for one in segments:
                if not self._is_kept(one):
                    told = f"{one.path} is not the archive of the records from {one.first} on"
                    raise NotRemovable(told)
            root = tree_at(connection, older).root()
            return Removal(first=front, stop=older, root=root)

    def _since(self, connection: Readable) -> int:
        """Return the first record that has not left by a signed removal, wherever the front is said to be.

        The next removal covers all before it: what left otherwise has to be in an archive, too.
        """
        return min(front_of(connection), removed_in(connection, self._verifier))

    def _is_kept(self, segment: Segment) -> bool:
        """Say whether its file is there, unchanged, and holds these records of this log, signed.

        What a row of the table says is nothing that anybody signed.
        """
        path = Path(segment.path)
        try:
            if not path.is_file() or _digest_of(path) != segment.sha256:
                return False
            if segment not in self._verified:
                found = segment_verified_in(path, self._verifier, self._opened)
                held = (found.first, found.last, found.gaps)
                if not found.ok or held != (segment.first, segment.stop - 1, 0):
                    return False
                self._verified.add(segment)
        except (OSError, NotABundle):
            return False
        return True


class Retention(LogRetention):
    """The same of SQLite's log."""

    def __init__(self, data_dir: Path, writer: Writer, **more: Any) -> None:
        """Take the log in `data_dir`, and the rest as `LogRetention` does."""
        super().__init__(writer, **more)
        self._database = data_dir / DATABASE

    def _opened(self) -> Readable:
        return open_reader(self._database)

    def _removed(self, connection: Any, *, stop: int) -> None:
        connection.execute("UPDATE log_front SET first = ?", (stop,))
        connection.execute("DELETE FROM audit WHERE leaf_index < ?", (stop,))


async def _read(work: Callable[[], T]) -> T:
    try:
        return await asyncio.to_thread(work)
    except sqlite3.Error as error:
        raise AuditUnavailable("the audit log cannot be read", detail=str(error)) from error


def _write(path: Path, lines: Iterator[str]) -> tuple[Path, str]:
    """Write `lines` durably beside `path`; return where, and their SHA-256."""
    passing, digest = path.with_name(path.name + ".new"), hashlib.sha256()
    passing.unlink(missing_ok=True)
    create_private(passing)
    with passing.open("wb") as file:
        for line in lines:
            octets = line.encode()
            digest.update(octets)
            file.write(octets)
        file.flush()
        os.fsync(file.fileno())
    return passing, digest.hexdigest()


def _digest_of(path: Path) -> str:
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def _records(connection: Readable, first: int, stop: int) -> Iterator[tuple[int, bytes]]:
    for start in range(first, stop, _PAGE):
        yield from connection.execute(
            "SELECT leaf_index, CAST(body AS BLOB) FROM audit"
            " WHERE leaf_index >= ? AND leaf_index < ? ORDER BY leaf_index",
            (start, min(start + _PAGE, stop)),
        ).fetchall()


def _older(connection: Readable, before_us: int) -> int:
    """Return up to which leaf index all is older, signed, and whole tiles."""
    (signed,) = connection.execute("SELECT coalesce(max(size), 0) FROM checkpoints").fetchone()
    stop = min(_first_since(connection, before_us), signed)
    return int(stop - stop % TILE_LEAVES)


def _first_since(connection: Readable, time_us: int) -> int:
    """Return the leaf index of the first record of that time or later, or of the next one."""
    first, last = connection.execute(
        "SELECT (SELECT min(leaf_index) FROM audit WHERE time_us >= ?),"
        " (SELECT coalesce(max(leaf_index), -1) FROM audit)",
        (time_us,),
    ).fetchone()
    return int(last + 1 if first is None else first)


def _holds(connection: Readable) -> list[Held]:
    rows = connection.execute("SELECT name, first FROM holds ORDER BY first, name")
    return [Held(name=name, first=first) for name, first in rows]


def _segments(connection: Readable, first: int, stop: int) -> list[Segment]:
    """Return what is said to hold any of these records, by where it begins."""
    rows = connection.execute(
        "SELECT first, stop, path, sha256 FROM archives WHERE stop > ? AND first < ?"
        " ORDER BY first",
        (first, stop),
    )
    return [
        Segment(first=first, stop=stop, path=path, sha256=sha) for first, stop, path, sha in rows
    ]


def _missing(segments: list[Segment], first: int, stop: int) -> range:
    """Return the first of these records that none of `segments` is said to hold; empty without."""
    for segment in segments:
        if segment.first > first:
            return range(first, segment.first)
        first = max(first, segment.stop)
    return range(first, stop)


def _note_archive(connection: Readable, *, segment: Segment) -> None:
    connection.execute(
        "INSERT INTO archives (first, stop, path, sha256, made_us) VALUES (?, ?, ?, ?, ?)",
        (segment.first, segment.stop, segment.path, segment.sha256, time.time_ns() // 1000),
    )
