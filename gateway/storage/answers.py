"""Answers to ready-made questions, read from the log and its index in short transactions."""

import sqlite3
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Self
from urllib.parse import quote

from gateway.audit.query import QueryError, QueryTooLong, Statement
from gateway.storage.connection import open_reader
from gateway.storage.database import DATABASE
from gateway.storage.index import INDEX, unavailable
from gateway.storage.index_tables import BUCKET_CHARACTERS, LEAF_DIGITS, MARK_CHARACTERS
from gateway.storage.reader import record_of
from gateway.storage.ready_answers import ReadyAnswers, Rows
from gateway.storage.windows import searched

LONGEST_READ_S = 5.0
"""How long one read may take before it is given up."""

_OPERATIONS = 20_000
"""Of SQLite's machine, between looks at the clock: a few milliseconds."""
_TOO_COMPLEX = ("parser stack overflow", "too many SQL variables", "Expression tree is too large")
"""What SQLite says of a condition that is more than it reads."""


class Answers(ReadyAnswers):
    """Those over SQLite's log, and its index in a file beside it."""

    _beside = "CROSS"

    def __init__(self, connection: sqlite3.Connection) -> None:
        """Take over a connection to the log that has its index attached as `words`; see `open`."""
        super().__init__(connection)
        self._connection = connection

    @classmethod
    def open(cls, data_dir: Path, *, indexed: bool = True) -> Self:
        """Open the log and its index for reading; not `indexed`, what needs that one is refused.

        Raises:
            ConfigError: There is no log.
            AuditUnavailable: There is no index.

        """
        connection = open_reader(data_dir / DATABASE)
        if not indexed:
            return cls(connection)
        try:
            place = f"file:{quote(str(data_dir / INDEX))}?mode=ro"
            connection.execute("ATTACH ? AS words", (place,))
        except sqlite3.Error as error:
            connection.close()
            raise unavailable(error) from error
        return cls(connection)

    def page(self, statement: Statement) -> Rows:
        """Return the records that a compiled filter selects.

        Raises:
            QueryTooLong: It was given up; so for every read here.
            QueryError: There is too much in its condition.

        """
        if statement.words:
            with self._bounded(), self._one_state():
                found = searched(self._connection, statement)
            return self.records(found)
        return [record_of(*row) for row in self._rows(statement.sql, statement.parameters)]

    def marked(self, text: str, newest: int | None = None) -> list[int]:
        """Return the leaf indexes of records in which an identifier or hash stands, newest first.

        At most `newest` of them; and of others that end alike, which the record tells.
        """
        mark = text[-MARK_CHARACTERS:]
        found = {leaf for (leaf,) in self._rows(_FRESH, (mark,))}
        for (entries,) in self._rows(_PUT_AWAY, (mark[-BUCKET_CHARACTERS:],)):
            found.update(_leaves(entries, mark.rjust(MARK_CHARACTERS)))
        return sorted(found, reverse=True)[:newest]

    @contextmanager
    def _one_state(self) -> Iterator[None]:
        self._connection.execute("BEGIN")
        try:
            yield
        finally:
            self._connection.execute("ROLLBACK")

    @contextmanager
    def _bounded(self) -> Iterator[None]:
        end = time.monotonic() + LONGEST_READ_S
        self._connection.set_progress_handler(lambda: time.monotonic() > end, _OPERATIONS)
        try:
            yield
        except sqlite3.OperationalError as error:
            if error.sqlite_errorcode == sqlite3.SQLITE_INTERRUPT:
                raise QueryTooLong(LONGEST_READ_S) from error
            if str(error).startswith(_TOO_COMPLEX):
                raise QueryError("too much in one condition: nest less, or list fewer") from error
            raise unavailable(error) from error
        finally:
            self._connection.set_progress_handler(None, 0)


def _leaves(entries: str, mark: str) -> Iterator[int]:
    width = MARK_CHARACTERS + LEAF_DIGITS
    at = entries.find(mark)
    while at >= 0:
        if at % width == 0:
            yield int(entries[at + MARK_CHARACTERS : at + width])
        at = entries.find(mark, at + 1)


_FRESH = "SELECT leaf_index FROM words.fresh_marks WHERE mark = ?"
_PUT_AWAY = "SELECT entries FROM words.marks WHERE bucket = ?"
