"""The index by which questions about the log are answered at once: made from it, never part of it.

It is a file of its own, so that making it neither waits for the log's writer nor holds it up, and
waits for no sync: what a power cut takes from it is made again from the log.
"""

import sqlite3
import threading
from collections.abc import Callable, Iterable
from contextlib import closing, suppress
from pathlib import Path
from typing import Self
from urllib.parse import quote

from gateway.audit.questions import Progress
from gateway.errors import AuditUnavailable, ConfigError
from gateway.storage.database import DATABASE
from gateway.storage.files import create_private
from gateway.storage.index_tables import FORGET, PUT_AWAY, STEPS, TABLES, TEMPORARY, VERSION

INDEX = "audit-index.db"
"""The file's name in the data directory. It can be deleted; the next start makes it anew."""

_BATCH = 1000
_MOST_FRESH_MARKS = 1 << 17
_WAIT_S = 5.0
_CACHE_KIB = 32 << 10


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
        connection = self._connection
        first, newest = connection.execute(
            "SELECT (SELECT min(leaf_index) FROM log.audit), (SELECT max(leaf_index) FROM log.audit)"
        ).fetchone()
        if newest is None:
            return Progress(through=self._through, newest=-1)
        after = max(self._through, first - 1)
        through = min(newest, after + _BATCH)
        if through > self._through or first > self._first:
            connection.execute("BEGIN IMMEDIATE")
            try:
                self._take_up(after, through, first)
            except BaseException:
                connection.execute("ROLLBACK")
                raise
            connection.execute("COMMIT")
            self._through, self._first = through, first
        return Progress(through=self._through, newest=newest)

    def _take_up(self, after: int, through: int, first: int) -> None:
        connection = self._connection
        for step in STEPS:
            connection.execute(step, {"after": after, "through": through})
        (fresh,) = connection.execute("SELECT count(*) FROM fresh_marks").fetchone()
        if fresh > _MOST_FRESH_MARKS:
            for step in PUT_AWAY:
                connection.execute(step, {"through": through})
        if first > self._first:
            (time_us,) = connection.execute(
                "SELECT time_us FROM log.audit WHERE leaf_index = ?", (first,)
            ).fetchone()
            for step in FORGET:
                connection.execute(step, {"time_us": time_us, "first": first})
        connection.execute(
            "UPDATE progress SET through = ?, first = ?, leaf_hash ="
            " (SELECT leaf_hash FROM log.audit WHERE leaf_index = ?)",
            (through, first, through),
        )


def _connected(path: Path, log: Path) -> sqlite3.Connection:
    connection = _opened(path)
    try:
        connection.execute("PRAGMA journal_mode = WAL")
        connection.execute("PRAGMA synchronous = NORMAL")
        connection.execute("PRAGMA temp_store = MEMORY")
        connection.execute(f"PRAGMA cache_size = -{_CACHE_KIB}")
        connection.execute(f"PRAGMA journal_size_limit = {64 << 20}")
        connection.execute("ATTACH ? AS log", (_read_only(log),))
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
