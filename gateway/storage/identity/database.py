"""The identity database in a file: the one connection of a process, and what changed without it.

Unlike the audit log, several processes of one machine may have it open.
"""

import sqlite3
import threading
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Self, TypeVar

from gateway.domain.epoch import Epoch
from gateway.errors import ConfigError
from gateway.storage.connection import Durability, open_writer
from gateway.storage.files import FileIdentity, alone_in, create_private
from gateway.storage.identity.statements import Parameters, Refused, Result, Statements, unavailable
from gateway.storage.schema import IDENTITY, migrate

DATABASE = "identity.db"
"""Name of the file in the data directory."""

T = TypeVar("T")


class SqliteStatements:
    """`Statements` of SQLite."""

    def __init__(self, connection: sqlite3.Connection) -> None:
        self._connection = connection

    def execute(self, statement: str, parameters: Parameters = (), /) -> Result:
        """Run a statement; see `Statements`."""
        with _accepted():
            cursor = self._connection.execute(statement, parameters)
            return Result(rows=tuple(cursor), rowcount=cursor.rowcount)

    def executemany(self, statement: str, rows: Iterable[Sequence[object]], /) -> None:
        """Run it for each of `rows`; likewise."""
        with _accepted():
            self._connection.executemany(statement, rows)


class SqliteIdentityDatabase:
    """An `IdentityDatabase`, used by many threads, one at a time. Every commit waits for the disk.

    A lost `used_at` would revive a refresh token, so there is no setting for less.
    """

    def __init__(self, connection: sqlite3.Connection, path: Path) -> None:
        """Take over an open connection to `path`; see `open`."""
        self._connection = connection
        self._statements = SqliteStatements(connection)
        self.epoch = Epoch()
        self._files = (FileIdentity.of(str(path)), FileIdentity.of(f"{path}-wal"))
        # What fills a memory may have to read more: a secret by a key that another process has added.
        self._lock = threading.RLock()
        self._loaders: list[Callable[[Statements], None]] = []
        self._after_ours: list[Callable[[Statements], None]] = []
        self._version: int | None = None
        self.people = 0

    @classmethod
    def open(cls, data_dir: Path, *, wait_s: float = 5.0) -> Self:
        """Open the database of `data_dir`, made or brought up to date where needed.

        `wait_s` is how long to wait for another process's transaction, in seconds.

        Raises:
            ConfigError: It cannot be used.

        """
        path = data_dir / DATABASE
        # Of two processes that begin at once, one makes the tables.
        with alone_in(data_dir):
            create_private(path)
            connection = open_writer(path, durability=Durability.POWER, wait_s=wait_s)
            try:
                connection.execute("PRAGMA foreign_keys = 1")
                migrate(connection, IDENTITY)
            except (sqlite3.Error, ConfigError) as error:
                connection.close()
                raise ConfigError(f"{path} cannot be used: {error}") from error
            return cls(connection, path)

    def remembers(self, load: Callable[[Statements], None], *, ours: bool = False) -> None:
        """Fill a memory; see `IdentityDatabase`."""
        with self._lock, _available():
            # The version first: what is committed while the memory fills is followed later. And
            # the first memory's version stands for all: it is the oldest.
            if self._version is None:
                self._version = self._data_version()
                self.people = _people(self._statements)
            load(self._statements)
            self._loaders.append(load)
            if ours:
                self._after_ours.append(load)

    def write(
        self, job: Callable[[Statements], T], *, committed: Callable[[T], None] | None = None
    ) -> T:
        """Do a job; see `IdentityDatabase`."""
        with self._lock, _available():
            self._check_files()
            # Begun for writing at once: what the job reads stays true until it is committed.
            self._connection.execute("BEGIN IMMEDIATE")
            try:
                before = _people(self._statements)
                result = job(self._statements)
                after = _people(self._statements)
                self._connection.execute("COMMIT")
            except BaseException:
                if self._connection.in_transaction:  # SQLite ends it itself when the disk is full
                    self._connection.execute("ROLLBACK")
                raise
            try:
                if committed is not None:
                    committed(result)
                for load in self._after_ours:
                    load(self._statements)
                if before == self.people:  # else memory lacks what another process has ended
                    self.people = after
            finally:
                self.epoch.turn()
            return result

    def read(self, job: Callable[[Statements], T]) -> T:
        """Return what `job` reads; see `IdentityDatabase`."""
        with self._lock, _available():
            return job(self._statements)

    def follow(self) -> bool:
        """Fill the memories anew; see `IdentityDatabase`."""
        with self._lock, _available():
            version = self._data_version()
            if version == self._version:
                return False
            people = _people(self._statements)
            try:
                for load in self._loaders:
                    load(self._statements)
                self.people = people
            finally:
                self.epoch.turn()
            self._version = version
            return True

    def close(self) -> None:
        with self._lock:
            self._connection.close()

    def _check_files(self) -> None:
        # SQLite goes on writing to a file that nobody can find any more, and reports success.
        if not all(file.is_current() for file in self._files):
            raise sqlite3.OperationalError("the database file was renamed or deleted")

    def _data_version(self) -> int:
        # It counts the commits of other connections only (SQLite, PRAGMA data_version).
        (version,) = self._connection.execute("PRAGMA data_version").fetchone()
        return int(version)


def _people(statements: Statements) -> int:
    ((ended,),) = statements.execute("SELECT people FROM identity_version")
    return int(ended)


@contextmanager
def _accepted() -> Iterator[None]:
    try:
        yield
    except sqlite3.IntegrityError as error:
        raise Refused(str(error)) from error
    except sqlite3.Error as error:
        raise unavailable(error) from error


@contextmanager
def _available() -> Iterator[None]:
    try:
        yield
    except (sqlite3.Error, Refused) as error:
        raise unavailable(error) from error
