"""The writer's end of the database: batches in one transaction, the tree, signed checkpoints."""

import secrets
import sqlite3
from collections.abc import Callable, Sequence
from functools import cache
from pathlib import Path
from typing import Any, Self

from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

from gateway.audit.checkpoint import BadCheckpoint, VerifierKey, open_checkpoint, sign_checkpoint
from gateway.audit.links import NOTHING, Signed, sign_link
from gateway.audit.record import COLUMNS, Entry
from gateway.audit.tiles import TILE_LEAVES, TiledTree
from gateway.domain.audit import TreeHead
from gateway.errors import ConfigError
from gateway.storage.connection import Durability, open_writer, set_synchronous
from gateway.storage.files import FileIdentity, create_private, write_atomically
from gateway.storage.owed import PLANE, keep_owed
from gateway.storage.schema import migrate
from gateway.storage.tree import load_tree, provable, tree_at
from gateway.storage.usage import Usage

Job = Callable[[sqlite3.Connection], Any]
"""A change of state. It may run twice, so all it does is read and write the connection.

It says no by a `GatewayError`, `ValueError` or `LookupError`, and is then undone alone; so is one
that meets a bug.
"""

Connect = Callable[[], sqlite3.Connection]

DATABASE = "douane.db"
CHECKPOINT = "checkpoint"
"""Names of files in the data directory; the second is the newest signed checkpoint."""

_ROW = f"({', '.join('?' * (len(COLUMNS) + 3))})"
_ROWS_AT_ONCE = 64
"""Rows of one statement. Each statement gives up the interpreter and waits for it again, which
costs more than the insert."""


@cache
def _insert_of(rows: int) -> str:
    names = f"leaf_index, {', '.join(COLUMNS)}, leaf_hash, body"
    return f"INSERT INTO audit ({names}) VALUES {', '.join([_ROW] * rows)}"  # noqa: S608 - fixed


class FileMoved(OSError):
    """The database was renamed or deleted; what is written to it would be lost."""


class CommitUnknown(sqlite3.Error):
    """A commit failed in a way that leaves open whether it happened."""


class JobOutcome:
    """What one job of a batch came to."""

    __slots__ = ("error", "result")

    def __init__(self) -> None:
        self.result: Any = None
        self.error: Exception | None = None


class Database:
    """Used by one thread at a time. `tree` and `batch` are what is durably stored."""

    def __init__(
        self,
        connection: sqlite3.Connection,
        *,
        data_dir: Path,
        durability: Durability,
        key: Ed25519PrivateKey,
    ) -> None:
        """Take over an open connection; see `open`."""
        path = data_dir / DATABASE
        self._connection = connection
        self._checkpoint_path = data_dir / CHECKPOINT
        self._durability = self._in_force = durability
        self._key = key
        migrate(connection)
        meta = _meta(connection)
        self.log_id = meta["log_id"]
        self.batch = int(meta["batch"])
        """How many batches were ever committed."""
        self.tree: TiledTree = load_tree(connection)
        self.signed_size = self._verified_size()
        self._newest = _newest_checkpoint(connection)
        self._usage = Usage()
        self._files = (FileIdentity.of(str(path)), FileIdentity.of(f"{path}-wal"))

    @classmethod
    def open(
        cls,
        data_dir: Path,
        *,
        durability: Durability,
        wait_s: float,
        key: Ed25519PrivateKey,
        connect: Connect | None = None,
    ) -> Self:
        """Open the database of `data_dir`, made or brought up to date where needed.

        `wait_s` is how long to wait for another connection's lock, in seconds; `connect` replaces
        how the file is opened.

        Raises:
            ConfigError: It cannot be used, or its log does not match its own checkpoints.

        """
        path = data_dir / DATABASE
        if connect is None:
            create_private(path)
            connection = open_writer(path, durability=durability, wait_s=wait_s)
        else:
            connection = connect()
        try:
            return cls(connection, data_dir=data_dir, durability=durability, key=key)
        except BaseException:
            connection.close()
            raise

    def commit(
        self,
        entries: Sequence[tuple[Entry, JobOutcome]],
        jobs: Sequence[tuple[Job, JobOutcome]],
        *,
        late: Sequence[Entry] = (),
        settles: bool = False,
    ) -> int:
        """Do `jobs` and store `entries` in one transaction; return the first entry's leaf index.

        An entry whose job said no is not stored: its outcome has the error.
        Of `late` ones, which come before, those that are there already are left out. With them, or
        where it `settles`, all that was ever committed survives a power cut afterwards.

        Raises:
            FileMoved: Nothing was done.
            CommitUnknown: It may have been done: opened again, `batch` tells.
            sqlite3.Error: Nothing was done.

        """
        self._check_files()
        connection = self._connection
        # Where late ones were kept survives a power cut, and is emptied once they are here. A commit
        # with FULL syncs the whole write-ahead log, what an earlier process left there included.
        self._commit_as(Durability.POWER if late or settles else self._durability)
        connection.execute("BEGIN IMMEDIATE")
        try:
            for job, outcome in jobs:
                _do(connection, job, outcome)
            missing = [entry for entry in late if not self._has(entry)]
            first = self.tree.size + len(missing)
            stored = [entry for entry, outcome in entries if outcome.error is None]
            tree = self._insert([*missing, *stored])
            connection.execute(
                "UPDATE meta SET value = ? WHERE key = 'batch'", (str(self.batch + 1),)
            )
        except BaseException:
            _roll_back(connection)
            raise
        try:
            connection.execute("COMMIT")
        except sqlite3.Error as error:
            raise CommitUnknown(str(error)) from error
        self.tree = tree
        self.batch += 1
        return first

    def _commit_as(self, durability: Durability) -> None:
        if durability is not self._in_force:
            set_synchronous(self._connection, durability)
            self._in_force = durability

    def _has(self, entry: Entry) -> bool:
        found: tuple[bytes] | None = self._connection.execute(
            "SELECT leaf_hash FROM audit WHERE id = ?", (entry.columns[0],)
        ).fetchone()
        return found == (entry.leaf,)

    def is_in_place(self) -> bool:
        """Say whether its files are still where they were; from any thread."""
        return all(map(FileIdentity.is_current, self._files))

    def _check_files(self) -> None:
        # SQLite goes on writing to a file that nobody can find any more, and reports success.
        if not self.is_in_place():
            raise FileMoved("the database file was renamed or deleted")

    def _insert(self, entries: Sequence[Entry]) -> TiledTree:
        first = self.tree.size
        tree, tiles = self.tree.extend([entry.leaf for entry in entries])
        of_planes = False
        for start in range(0, len(entries), _ROWS_AT_ONCE):
            part = entries[start : start + _ROWS_AT_ONCE]
            row: list[Any] = []
            for index, entry in enumerate(part, first + start):
                row += (index, *entry.columns, entry.leaf, entry.body.decode())
                of_planes |= PLANE in entry.body
            self._connection.execute(_insert_of(len(part)), row)
        self._usage.add(self._connection, entries)
        if of_planes:
            keep_owed(self._connection, entries)
        if tiles:
            self._connection.executemany(
                "INSERT INTO tiles (tile, root) VALUES (?, ?)",
                enumerate(tiles, first // TILE_LEAVES),
            )
        return tree

    def sign(self) -> TreeHead:
        """Sign the tree as it is; what a checkpoint vouches for survives a power cut.

        Raises:
            OSError: It could not be written; the records are not affected.
            sqlite3.Error: The same.

        """
        self._check_files()
        head = sign_checkpoint(self.log_id, self.tree.size, self.tree.root(), self._key)
        signed = Signed(size=head.size, note=head.note)
        link = sign_link(self.log_id, self._newest, signed, self._key)
        # A commit with FULL syncs the whole write-ahead log, the records before it included.
        self._commit_as(Durability.POWER)
        self._connection.execute(
            "INSERT INTO checkpoints (size, note, previous, link) VALUES (?, ?, ?, ?)",
            (head.size, head.note, self._newest.size, link),
        )
        self._newest = signed
        write_atomically(self._checkpoint_path, head.note.encode())
        self.signed_size = head.size
        return head

    def settle(self) -> None:
        """Make durable what a failed commit may have left in the system's cache only.

        Raises:
            sqlite3.Error: It is not.

        """
        busy, _, _ = self._connection.execute("PRAGMA wal_checkpoint(TRUNCATE)").fetchone()
        if busy:
            raise sqlite3.OperationalError("the write-ahead log is in use")

    def close(self) -> None:
        self._connection.close()

    def _verified_size(self) -> int:
        """Return the size of the largest checkpoint, once all that could be lost are checked.

        Raises:
            ConfigError: The log is shorter than a checkpoint, has another root, or is signed by
                another key.

        """
        verifier = VerifierKey.of(self.log_id, self._key)
        notes = self._connection.execute(
            "SELECT note FROM checkpoints ORDER BY size DESC LIMIT 1"
        ).fetchall()
        found = [note for (note,) in notes]
        if self._checkpoint_path.exists():
            found.append(self._checkpoint_path.read_text("utf-8", "replace"))
        largest = -1
        for note in found:
            try:
                head = open_checkpoint(note, verifier)
            except BadCheckpoint as error:
                raise _unlike_its_checkpoint(str(error)) from error
            if head.size > self.tree.size:
                raise _unlike_its_checkpoint(
                    f"{head.size} records were signed, but there are {self.tree.size}"
                )
            if not provable(self._connection, head.size):
                continue  # of the part that has left the log
            if tree_at(self._connection, head.size).root() != head.root:
                raise _unlike_its_checkpoint(f"the first {head.size} records were changed")
            largest = max(largest, head.size)
        return largest


def _newest_checkpoint(connection: sqlite3.Connection) -> Signed:
    row = connection.execute(
        "SELECT size, note FROM checkpoints ORDER BY size DESC LIMIT 1"
    ).fetchone()
    return NOTHING if row is None else Signed(size=row[0], note=row[1])


def _unlike_its_checkpoint(why: str) -> ConfigError:
    return ConfigError(
        "the audit log does not match its own checkpoint, so nothing is added to it: run "
        "`douane audit verify`, then restore the data directory from a backup, or move "
        f"{DATABASE} and {CHECKPOINT} away to begin a new log",
        problems=[why],
    )


def _meta(connection: sqlite3.Connection) -> dict[str, str]:
    """Return the database's facts about itself; a new one gets its log's name."""
    connection.execute("BEGIN IMMEDIATE")
    try:
        connection.executemany(
            "INSERT OR IGNORE INTO meta (key, value) VALUES (?, ?)",
            [("log_id", f"douane/{secrets.token_hex(8)}"), ("batch", "0")],
        )
        found = dict(connection.execute("SELECT key, value FROM meta").fetchall())
    except BaseException:
        _roll_back(connection)
        raise
    connection.execute("COMMIT")
    return found


def _do(connection: sqlite3.Connection, job: Job, outcome: JobOutcome) -> None:
    connection.execute("SAVEPOINT job")
    outcome.error = None
    try:
        outcome.result = job(connection)
    except (sqlite3.Error, OSError) as error:
        if not isinstance(error, sqlite3.IntegrityError):
            raise  # the database's own trouble
        outcome.error = error
        connection.execute("ROLLBACK TO job")
    except Exception as error:  # noqa: BLE001 - whoever waits for it gets it, a bug too
        outcome.error = error
        connection.execute("ROLLBACK TO job")
    connection.execute("RELEASE job")


def _roll_back(connection: sqlite3.Connection) -> None:
    if connection.in_transaction:  # SQLite ends it by itself when the disk is full
        connection.execute("ROLLBACK")
