"""Answers to ready-made questions, of the log in PostgreSQL and the index that lies beside it there."""

import sqlite3
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from threading import Lock
from typing import Any, Final, Self

import psycopg

from gateway.audit.query import Order, QueryError, QueryTooLong, Statement
from gateway.audit.questions import Progress
from gateway.storage.answers import LONGEST_READ_S
from gateway.storage.index import unavailable
from gateway.storage.postgres.connection import Connection, Session
from gateway.storage.postgres.dialect import POSTGRES
from gateway.storage.postgres.reading import SharedReading
from gateway.storage.postgres.terms import filed
from gateway.storage.reader import record_of
from gateway.storage.ready_answers import ReadyAnswers, Rows

_FEWEST: Final = 1000
_MOST: Final = 16_384
"""Records in a batch. There are more of them the further behind it is, while none takes long."""
_QUICK_S: Final = 0.2
_LONG_S: Final = 0.6
_PATIENCE_S: Final = 62.0
_LOOK_AGAIN_S: Final = 0.02
_LIMITS: Final = "54"
"""How the codes begin by which PostgreSQL says that there is too much in a statement."""


class PostgresAnswers(ReadyAnswers):
    """Those over a connection that ends what takes too long, and cannot write."""

    @classmethod
    def open(cls, conninfo: str) -> Self:
        """Connect at first use."""
        bound = f"{round(LONGEST_READ_S * 1000)}ms"
        return cls(SharedReading.of(conninfo, statement_timeout=bound))

    def page(self, statement: Statement) -> Rows:
        """Return the records that a filter selects; see `Answers`."""
        told = statement.spelled(POSTGRES)
        if told.unindexed is None:
            return self._selected(told)
        # What the index has not come to is looked for in the records. It only ever gets further.
        ((through,),) = self._rows("SELECT through FROM words.progress", ())
        found = [
            *self._selected(replace(told, where=f"leaf_index <= {through} AND {told.where}")),
            *self._selected(_behind(told.unindexed, through)),
        ]
        found.sort(
            key=lambda one: (one["time"], one["leaf_index"]), reverse=told.order is Order.NEWEST
        )
        return found[: told.limit]

    def who_called(self, server: str, tool: str, since_us: int, limit: int) -> Rows:
        """Return who called a tool; see `ReadyAnswers`. Names are cut as columns are; so below."""
        on, called = filed((server, tool))
        return super().who_called(on, called, since_us, limit)

    def flows(self, source: str, server: str | None, since_us: int, limit: int) -> Rows:
        """Return which tools got calls of runs that had seen data of `source`."""
        of, to = filed((source, server))
        return super().flows(of, to, since_us, limit)

    def outside(
        self,
        source: str,
        since_us: int,
        before: tuple[int, int],
        allowed: bool | None,
        limit: int,
    ) -> Rows:
        """Return the newest calls that sent something of `source` outside, or were to."""
        (of,) = filed((source,))
        return super().outside(of, since_us, before, allowed, limit)

    def marked(self, text: str, newest: int | None = None) -> list[int]:
        """Return the leaf indexes of records in which an identifier or hash stands; see `Answers`."""
        rows = self._rows(
            "SELECT leaf_index FROM words.marks WHERE mark = words.mark_1(?)"
            " ORDER BY leaf_index DESC LIMIT CAST(? AS bigint)",
            (text, newest),
        )
        return [leaf for (leaf,) in rows]

    def _selected(self, statement: Statement) -> Rows:
        return [record_of(*row) for row in self._rows(statement.sql, statement.parameters)]

    @contextmanager
    def _bounded(self) -> Iterator[None]:
        try:
            yield
        except sqlite3.Error as error:
            cause = error.__cause__
            if isinstance(cause, psycopg.errors.QueryCanceled):
                raise QueryTooLong(LONGEST_READ_S) from error
            if isinstance(cause, psycopg.Error) and (cause.sqlstate or "").startswith(_LIMITS):
                raise QueryError("too much in one condition: nest less, or list fewer") from error
            raise unavailable(error) from error


def _behind(statement: Statement, through: int) -> Statement:
    return replace(statement, where=f"leaf_index > {through} AND {statement.where}")


class PostgresIndex:
    """Takes up records in order, a batch a transaction: of all replicas one at a time."""

    def __init__(self, conninfo: str) -> None:
        """Connect at first use."""
        self._session = Session(
            conninfo,
            application="douane index",
            patience_s=_PATIENCE_S,
            settings={"statement_timeout": "60s"},
        )
        self._turn = Lock()
        self._batch = _FEWEST

    def close(self) -> None:
        self._session.close()

    def catch_up(self, enough: Callable[[], bool]) -> Progress:
        """Take up records until there are no more, or it is `enough`; at least one batch.

        Where another replica takes them up, that is waited for.

        Raises:
            AuditUnavailable: They could not be taken up. What was is in the index.

        """
        with self._turn:
            try:
                found = self._step()
                while not found.caught_up and not enough():
                    before, found = found, self._step()
                    if found.through == before.through:
                        time.sleep(_LOOK_AGAIN_S)
            except psycopg.Error as error:
                raise unavailable(error) from error
        return found

    def _step(self) -> Progress:
        began, batch = time.perf_counter(), self._batch
        through, newest, taken, lag_s = self._session.use(self._taken_up)
        took = time.perf_counter() - began
        if taken == batch and took < _QUICK_S:
            self._batch = min(2 * batch, _MOST)
        elif took > _LONG_S:
            self._batch = max(batch // 2, _FEWEST)
        return Progress(through=through, newest=newest, lag_s=lag_s)

    def _taken_up(self, connection: Connection) -> tuple[Any, ...]:
        row = connection.execute(
            "SELECT through, newest, taken, lag_s FROM words.take_up_1(%s)", (self._batch,)
        ).fetchone()
        return row or (-1, -1, 0, 0.0)
