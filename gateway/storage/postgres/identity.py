"""People, clients, grants and sealed secrets of many replicas: an `IdentityDatabase` in PostgreSQL."""

import threading
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from typing import Final, Self, TypeVar

import psycopg
from psycopg.errors import DeadlockDetected, SerializationFailure

from gateway.domain.epoch import Epoch
from gateway.errors import ConfigError, IdentityUnavailable
from gateway.ports import Clock
from gateway.storage.identity.statements import (
    Parameters,
    Refused,
    Result,
    Statements,
    unavailable,
)
from gateway.storage.identity.store import IdentityStores
from gateway.storage.postgres.connection import Connection, Session, connect
from gateway.storage.postgres.identity_tables import IDENTITY
from gateway.storage.postgres.jobs import BEGIN, COMMIT, LOOK, Overtaken, again
from gateway.storage.postgres.migrations import migrate
from gateway.storage.postgres.spelling import SpelledStatements

T = TypeVar("T")

_PATIENCE_S: Final = 5.0
_VERSION: Final = b"SELECT version, people FROM identity_version"
_TURNED: Final = (
    b"SELECT nullif(current_setting('douane.turned', true), '')::bigint,"
    b" nullif(current_setting('douane.people', true), '')::bigint"
)

_Numbers = tuple[int | None, int | None]
"""How often what memories hold has changed, and how often rights have ended, of a look or of a commit."""


class PostgresStatements(SpelledStatements):
    """`Statements` of PostgreSQL."""

    def execute(self, statement: str, parameters: Parameters = (), /) -> Result:
        """Run a statement; see `Statements`. One that another's commit has ended is no error here."""
        with _accepted():
            return super().execute(statement, parameters)

    def executemany(self, statement: str, rows: Iterable[Sequence[object]], /) -> None:
        """Run it for each of `rows`; likewise."""
        with _accepted():
            super().executemany(statement, rows)


class _Unreadable:
    """`Statements` of a database that was lost."""

    def __init__(self, error: Exception) -> None:
        self._error = error

    def execute(self, _statement: str, _parameters: Parameters = (), /) -> Result:
        raise unavailable(self._error) from self._error

    def executemany(self, _statement: str, _rows: Iterable[Sequence[object]], /) -> None:
        raise unavailable(self._error) from self._error


class PostgresIdentityDatabase:
    """An `IdentityDatabase`, used by many threads; writes of one process are one at a time.

    Of many replicas' jobs that touch the same, one is committed and the others begin anew.
    """

    def __init__(self, conninfo: str) -> None:
        """Connect at first use; see `open`."""
        self._writing = Session(conninfo, application="douane identity", patience_s=_PATIENCE_S)
        self._reading = Session(
            conninfo, application="douane identity, reading", patience_s=_PATIENCE_S
        )
        self.epoch = Epoch()
        self._lock = threading.Lock()
        self._loaders: list[Callable[[Statements], None]] = []
        self._after_ours: list[Callable[[Statements], None]] = []
        self._version: int | None = None
        self.people = 0

    @classmethod
    def open(cls, conninfo: str) -> Self:
        """Open the database, made or brought up to date where needed.

        Raises:
            ConfigError: It cannot be used.

        """
        try:
            with connect(conninfo, application="douane migrations") as connection:
                migrate(connection, IDENTITY)
        except psycopg.Error as error:
            raise ConfigError(f"PostgreSQL cannot be used: {error}") from error
        return cls(conninfo)

    def remembers(self, load: Callable[[Statements], None], *, ours: bool = False) -> None:
        """Fill a memory; see `IdentityDatabase`."""

        def filled(connection: Connection) -> None:
            version, people = _look(connection, [load])
            # The first memory's version stands for all: it is the oldest.
            if self._version is None:
                self._version, self.people = version, people or 0

        with self._lock, _available():
            self._writing.use(filled)
            self._loaders.append(load)
            if ours:
                self._after_ours.append(load)

    def write(
        self, job: Callable[[Statements], T], *, committed: Callable[[T], None] | None = None
    ) -> T:
        """Do a job, perhaps more than once; see `IdentityDatabase`."""
        with self._lock, _available():
            result, (turned, people) = self._again_and_again(job)
            try:
                if committed is not None:
                    committed(result)
                self._filled_by_ours()
                # Whether memory lacks what another has changed before is seen by `follow`.
                if self._version is not None and turned == self._version + 1:
                    self._version = turned
                    self.people = self.people if people is None else people
            finally:
                self.epoch.turn()
            return result

    def read(self, job: Callable[[Statements], T]) -> T:
        """Return what `job` reads; see `IdentityDatabase`. No job of another thread is waited for."""
        with _available():
            return self._reading.use(lambda connection: job(PostgresStatements(connection)))

    def follow(self) -> bool:
        """Fill the memories anew; see `IdentityDatabase`."""
        with self._lock, _available():
            return self._writing.use(self._followed)

    def close(self) -> None:
        with self._lock:
            self._writing.close()
            self._reading.close()

    def _again_and_again(self, job: Callable[[Statements], T]) -> tuple[T, _Numbers]:
        try:
            return again(lambda: self._writing.use(lambda connection: _once(connection, job)))
        except Overtaken as error:
            raise unavailable(error) from error

    def _filled_by_ours(self) -> None:
        if not self._after_ours:
            return
        try:
            self._writing.use(lambda connection: _look(connection, self._after_ours))
        except psycopg.Error as error:
            # What a trigger has ended must not be held: nothing is, until it can be read again.
            self._version = None
            for load in self._after_ours:
                load(_Unreadable(error))

    def _followed(self, connection: Connection) -> bool:
        if _numbers(connection, _VERSION)[0] == self._version:
            return False
        try:
            version, people = _look(connection, self._loaders)
            self._version, self.people = version, people or 0
        finally:
            self.epoch.turn()
        return True


def open_identity(conninfo: str, *, clock: Clock) -> IdentityStores:
    """Return the identity stores of one replica.

    Raises:
        ConfigError: The database cannot be used, or what it holds cannot be read.

    """
    database = PostgresIdentityDatabase.open(conninfo)
    try:
        return IdentityStores(database, clock=clock)
    except (IdentityUnavailable, ValueError) as error:
        database.close()
        raise ConfigError(f"the identity tables cannot be used: {error}") from error
    except BaseException:
        database.close()
        raise


def _once(connection: Connection, job: Callable[[Statements], T]) -> tuple[T, _Numbers]:
    """Return what a committed `job` returned, and the numbers that it made, if it made any."""
    connection.execute(BEGIN)
    result = job(PostgresStatements(connection))
    turned = _numbers(connection, _TURNED)
    connection.execute(COMMIT)
    return result, turned


def _look(connection: Connection, loaders: Iterable[Callable[[Statements], None]]) -> _Numbers:
    """Fill memories with what was committed at one moment, and return its numbers."""
    connection.execute(LOOK)
    found = _numbers(connection, _VERSION)
    for load in loaders:
        load(PostgresStatements(connection))
    connection.execute(COMMIT)
    return found


def _numbers(connection: Connection, statement: bytes) -> _Numbers:
    row = connection.execute(statement).fetchone()
    return (None, None) if row is None else (row[0], row[1])


@contextmanager
def _accepted() -> Iterator[None]:
    try:
        yield
    except psycopg.IntegrityError as error:
        raise Refused(str(error)) from error
    except (SerializationFailure, DeadlockDetected):
        raise
    except psycopg.Error as error:
        raise unavailable(error) from error


@contextmanager
def _available() -> Iterator[None]:
    try:
        yield
    except (psycopg.Error, Refused) as error:
        raise unavailable(error) from error
