"""The index by which questions about the log are answered at once: made from it, never part of it.

It is a file of its own, so that making it neither waits for the log's writer nor holds it up, and
waits for no sync: what a power cut takes from it is made again from the log.
"""

import sqlite3
import threading
import time
from collections.abc import Callable, Iterable, Iterator
from contextlib import closing, contextmanager, suppress
from pathlib import Path
from typing import Self
from urllib.parse import quote

from gateway.audit.questions import Progress
from gateway.errors import AuditUnavailable, ConfigError
from gateway.storage import index_words
from gateway.storage.database import DATABASE
from gateway.storage.files import create_private
from gateway.storage.index_steps import (
    FORGET,
    PUT_AWAY,
    STEPS,
    kept,
)
from gateway.storage.index_tables import SPAN, TABLES, TEMPORARY, VERSION

INDEX = "audit-index.db"
"""The file's name in the data directory. It can be deleted; the next start makes it anew."""

_FEWEST = 1000
_MOST = 16_384
"""Records in a batch. There are more of them the further behind it is, while none takes long."""
_QUICK_S = 0.2
_LONG_S = 0.6
"""A question waits for a batch that is under way: this is the longest that is meant to take."""
_AGAIN = 4096
"""Records whose words are put in again at once, where the table that had them was dropped."""
_MOST_FRESH_MARKS = 1 << 18
_WAIT_S = 5.0
_CACHE_KIB = 16 << 10
_WAL_PAGES = 4096


def unavailable(error: Exception) -> AuditUnavailable:
    """Return what to say where the index cannot be used; the log itself is not affected."""
    return AuditUnavailable("the index of the audit log cannot be used now", detail=str(error))


class NoIndex:
    """In place of an index that cannot be opened: the log is served all the same."""

    def __init__(self, error: AuditUnavailable) -> None:
        self._error = error

    def catch_up(self, enough: Callable[[], bool]) -> Progress:  # noqa: ARG002 - as of an index
        """Refuse.

        Raises:
            AuditUnavailable: Always.

        """
        raise self._error


class AuditIndex:
    """Takes up records in order, a batch a transaction. Several threads may ask it to."""

    def __init__(self, connection: sqlite3.Connection) -> None:
        """Take over a connection to the index that has the log attached as `log`; see `open`."""
        self._connection = connection
        self._turn = threading.Lock()
        self._through, self._first = self._begun()
        self._batch = _FEWEST
        self._to_settle = True

    @classmethod
    def open(cls, data_dir: Path) -> Self:
        """Open the index of the log in `data_dir`; one that is not of this log is made anew.

        Raises:
            AuditUnavailable: There is no log, or the file cannot be written.

        """
        path = data_dir / INDEX
        try:
            create_private(path)
            if not _is_of(path, data_dir / DATABASE):
                _remove(path)
                create_private(path)
            return cls(_connected(path, data_dir / DATABASE))
        except (sqlite3.Error, OSError, ConfigError) as error:
            raise unavailable(error) from error

    def close(self) -> None:
        with self._turn:
            self._connection.close()

    def catch_up(self, enough: Callable[[], bool]) -> Progress:
        """Take up records until there are no more, or it is `enough`; at least one batch.

        Raises:
            AuditUnavailable: They could not be taken up. What was is in the index.

        """
        with self._turn:
            try:
                found = self._step()
                while not found.complete and not enough():
                    found = self._step()
            except sqlite3.Error as error:
                raise unavailable(error) from error
        return found

    def _begun(self) -> tuple[int, int]:
        through, first = self._connection.execute("SELECT through, first FROM progress").fetchone()
        return int(through), int(first)

    def _step(self) -> Progress:
        first, newest = self._connection.execute(
            "SELECT (SELECT min(leaf_index) FROM log.audit), (SELECT max(leaf_index) FROM log.audit)"
        ).fetchone()
        if newest is None:
            return Progress(through=self._through, newest=-1)
        if first > self._first:
            self._forget()
        after = max(self._through, first - 1)
        if newest > after:
            self._take_up(after, newest)
        if behind := index_words.behind(self._connection):
            with self._transaction():
                index_words.go_on(self._connection, behind, _AGAIN)
        self._settle()
        return Progress(through=self._through, newest=newest)

    def _take_up(self, after: int, newest: int) -> None:
        connection = self._connection
        through = min(newest, after + self._batch, index_words.end_of(after + 1))
        began = time.perf_counter()
        with self._transaction():
            for step in STEPS:
                connection.execute(step, {"after": after, "through": through, "span": SPAN})
            (fresh,) = connection.execute("SELECT count(*) FROM fresh_marks").fetchone()
            if fresh > _MOST_FRESH_MARKS:
                for step in PUT_AWAY:
                    connection.execute(step, {"through": through})
            index_words.take_up(connection, after, through)
            connection.execute(
                "UPDATE progress SET through = ?, leaf_hash ="
                " (SELECT leaf_hash FROM log.audit WHERE leaf_index = ?)",
                (through, through),
            )
        self._through = through
        took = time.perf_counter() - began
        if through - after == self._batch and took < _QUICK_S:
            self._batch = min(2 * self._batch, _MOST)
        elif took > _LONG_S:
            self._batch = max(self._batch // 2, _FEWEST)

    def _forget(self) -> None:
        connection = self._connection
        with self._transaction():
            first, time_us = connection.execute(
                "SELECT leaf_index, time_us FROM log.audit ORDER BY leaf_index LIMIT 1"
            ).fetchone()
            for step in FORGET:
                connection.execute(step, {"time_us": time_us, "first": first, "span": SPAN})
            index_words.forget(connection, first, self._through)
            connection.execute("UPDATE progress SET first = ?", (first,))
        self._first = first
        self._to_settle = True

    def _settle(self) -> None:
        """Leave nothing of what was forgotten in the write-ahead log, once no reader needs it."""
        if not self._to_settle:
            return
        self._connection.execute("PRAGMA busy_timeout = 100")
        (busy, *_) = self._connection.execute("PRAGMA main.wal_checkpoint(TRUNCATE)").fetchone()
        self._connection.execute(f"PRAGMA busy_timeout = {round(_WAIT_S * 1000)}")
        self._to_settle = bool(busy)

    @contextmanager
    def _transaction(self) -> Iterator[None]:
        self._connection.execute("BEGIN IMMEDIATE")
        try:
            yield
        except BaseException:
            self._connection.execute("ROLLBACK")
            raise
        self._connection.execute("COMMIT")


def _connected(path: Path, log: Path) -> sqlite3.Connection:
    connection = _opened(path)
    try:
        connection.execute("PRAGMA journal_mode = WAL")
        connection.execute("PRAGMA synchronous = NORMAL")
        connection.execute("PRAGMA secure_delete = ON")
        connection.execute(f"PRAGMA wal_autocheckpoint = {_WAL_PAGES}")
        connection.execute("PRAGMA temp_store = MEMORY")
        connection.execute(f"PRAGMA cache_size = -{_CACHE_KIB}")
        connection.execute(f"PRAGMA journal_size_limit = {64 << 20}")
        connection.execute("ATTACH ? AS log", (_read_only(log),))
        connection.create_function("kept", 2, kept, deterministic=True)
        if not connection.execute("PRAGMA main.user_version").fetchone()[0]:
            _make(connection)
        for statement in _statements(TEMPORARY):
            connection.execute(statement)
    except BaseException:
        connection.close()
        raise
    return connection


def _opened(path: Path) -> sqlite3.Connection:
    return sqlite3.connect(
        f"file:{quote(str(path))}",
        uri=True,
        isolation_level=None,
        check_same_thread=False,
        timeout=_WAIT_S,
    )


def _read_only(path: Path) -> str:
    return f"file:{quote(str(path))}?mode=ro"


def _make(connection: sqlite3.Connection) -> None:
    connection.execute("BEGIN IMMEDIATE")
    try:
        for statement in _statements(TABLES):
            connection.execute(statement)
        connection.execute(
            "INSERT INTO progress SELECT 1, value, -1, x'', 0 FROM log.meta WHERE key = 'log_id'"
        )
        connection.execute(f"PRAGMA main.user_version = {VERSION}")
    except BaseException:
        connection.execute("ROLLBACK")
        raise
    connection.execute("COMMIT")


def _statements(script: str) -> Iterable[str]:
    return (part for part in script.split(";\n") if part.strip())


def _is_of(path: Path, log: Path) -> bool:
    """Whether the index is new, or of this version, this log, and what the log still is."""
    try:
        with closing(_opened(path)) as connection:
            (version,) = connection.execute("PRAGMA user_version").fetchone()
            if version == 0:
                (tables,) = connection.execute("SELECT count(*) FROM sqlite_schema").fetchone()
                return bool(tables == 0)
            if version != VERSION:
                return False
            connection.execute("ATTACH ? AS log", (_read_only(log),))
            found = connection.execute(_SAME).fetchone()
            return found is not None and bool(found[0])
    except sqlite3.DatabaseError:
        return False


# Records that were pruned are not to be found any more, so only the last one taken up is compared.
_SAME = """
SELECT p.log_id = (SELECT value FROM log.meta WHERE key = 'log_id')
    AND p.through <= (SELECT ifnull(max(leaf_index), -1) FROM log.audit)
    AND ifnull(p.leaf_hash = (
        SELECT leaf_hash FROM log.audit WHERE leaf_index = p.through
    ), p.through < (SELECT ifnull(min(leaf_index), 0) FROM log.audit))
FROM progress AS p
"""


def _remove(path: Path) -> None:
    for suffix in ("", "-wal", "-shm"):
        with suppress(FileNotFoundError):
            path.with_name(path.name + suffix).unlink()
