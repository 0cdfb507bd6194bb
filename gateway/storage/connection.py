"""How the database file is opened: by one writer, and by readers that cannot write."""

import sqlite3
from collections.abc import Iterator, Sequence
from enum import StrEnum
from pathlib import Path
from typing import Any, Protocol
from urllib.parse import quote

from gateway.errors import ConfigError

_WAL_BYTES = 64 << 20
_CACHE_KIB = 16 << 10
_READER_WAIT_S = 5.0


class Rows(Protocol):
    """What a statement has found."""

    @property
    def description(self) -> Any:
        """Of each column something of which the first is its name."""
        ...

    @property
    def rowcount(self) -> int:
        """How many rows it has changed."""
        ...

    def fetchone(self) -> Any: ...
    def fetchall(self) -> list[Any]: ...
    def __iter__(self) -> Iterator[Any]: ...


class Readable(Protocol):
    """A log as it is read: SQLite's connection, or what answers as that does.

    What it cannot read it says by a `sqlite3.DatabaseError`, which is `Unanswered` where that is no fault
    of what is there.
    """

    def execute(self, sql: str, parameters: Sequence[Any] = ..., /) -> Rows: ...
    def close(self) -> None: ...


class Unanswered(sqlite3.OperationalError):
    """Whoever has the log cannot be asked now: nothing is known of it, neither good nor bad."""


def columns_in(connection: Readable, table: str) -> frozenset[str]:
    """Return the names of a table's columns; none where there is no such table."""
    found = connection.execute("SELECT name FROM pragma_table_info(?)", (table,))
    return frozenset(name for (name,) in found.fetchall())


class Durability(StrEnum):
    """What a record survives once it is acknowledged."""

    POWER = "power"
    """A power cut: every commit waits for the disk."""
    PROCESS = "process"
    """The end of this process; a power cut may take the last seconds, but never out of order."""

    @property
    def synchronous(self) -> int:
        """SQLite's `synchronous`: FULL, or NORMAL."""
        return 2 if self is Durability.POWER else 1


def open_writer(path: Path, *, durability: Durability, wait_s: float) -> sqlite3.Connection:
    """Return a connection that writes as durably as asked; it waits `wait_s` for a lock.

    Raises:
        ConfigError: The file cannot be used that way.

    """
    connection = sqlite3.connect(
        path, isolation_level=None, check_same_thread=False, timeout=wait_s
    )
    try:
        prepare_writer(connection, durability)
    except (sqlite3.Error, ConfigError) as error:
        connection.close()
        raise ConfigError(f"{path} cannot be written safely: {error}{advice_on(error)}") from error
    return connection


def advice_on(error: Exception) -> str:
    """Return what there is to do about a file that SQLite cannot read; empty for other failures."""
    if type(error) is not sqlite3.DatabaseError:  # its subclasses are no damage
        return ""
    return (
        ": the file is damaged, and stays as it is; run `douane audit verify`, then restore the "
        "data directory from a backup, or move it away to begin a new one"
    )


def prepare_writer(connection: sqlite3.Connection, durability: Durability) -> None:
    """Set what every writing connection needs.

    Raises:
        ConfigError: SQLite did not take a setting.

    """
    # Without it REPLACE deletes rows unseen by the triggers that keep the log append-only.
    connection.execute("PRAGMA recursive_triggers = 1")
    # Some builds of SQLite leave what was deleted in free pages: records that retention removed.
    connection.execute("PRAGMA secure_delete = ON")
    connection.execute(f"PRAGMA journal_size_limit = {_WAL_BYTES}")
    connection.execute(f"PRAGMA cache_size = -{_CACHE_KIB}")
    (mode,) = connection.execute("PRAGMA journal_mode = WAL").fetchone()
    if mode != "wal":
        raise ConfigError(f"the file system cannot hold a write-ahead log ({mode})")
    set_synchronous(connection, durability)


def set_synchronous(connection: sqlite3.Connection, durability: Durability) -> None:
    """Make commits as durable as asked from now on.

    Raises:
        ConfigError: SQLite did not take the setting, as within a transaction.

    """
    connection.execute(f"PRAGMA synchronous = {durability.synchronous}")
    (found,) = connection.execute("PRAGMA synchronous").fetchone()
    if found != durability.synchronous:
        raise ConfigError(f"SQLite keeps synchronous={found}: records would not be durable")


def open_reader(path: Path) -> sqlite3.Connection:
    """Return a connection that can only read, beside the writer or without one.

    Raises:
        ConfigError: There is no such database.

    """
    try:
        connection = sqlite3.connect(
            f"file:{quote(str(path))}?mode=ro",
            uri=True,
            isolation_level=None,
            check_same_thread=False,
            timeout=_READER_WAIT_S,
        )
    except sqlite3.Error as error:
        raise ConfigError(f"{path} cannot be opened: {error}") from error
    connection.execute("PRAGMA query_only = 1")
    return connection
