"""Ready-made questions over the log and its index `words`, in SQL that each of our databases reads."""

from abc import ABC, abstractmethod
from collections.abc import Sequence
from contextlib import AbstractContextManager
from typing import Any, ClassVar

from gateway.audit.query import Statement
from gateway.storage.connection import Readable
from gateway.storage.index_tables import DAY_US, HOUR_US
from gateway.storage.reader import record_of

_REFUSALS = ("deny", "ask", "error")

Row = dict[str, Any]
Rows = list[Row]


class ReadyAnswers(ABC):
    """Used by one thread at a time. Each read is one transaction, and ends within a bound."""

    _beside: ClassVar[str] = ""
    """What has the engine take one table after the other, where it would choose worse by itself."""

    def __init__(self, connection: Readable) -> None:
        """Take over a connection to the log that has its index as `words`."""
        self._readable = connection

    def close(self) -> None:
        self._readable.close()

    @abstractmethod
    def page(self, statement: Statement) -> Rows:
        """Return the records that a compiled filter selects."""

    @abstractmethod
    def marked(self, text: str, newest: int | None = None) -> list[int]:
        """Return the leaf indexes of records in which an identifier or hash stands, newest first."""

    @abstractmethod
    def _bounded(self) -> AbstractContextManager[None]:
        """Have what is read within the context end in time, and say what went wrong."""

    def who_called(self, server: str, tool: str, since_us: int, limit: int) -> Rows:
        """Return who called a tool through which client since the hour of `since_us`."""
        return self._counted(_WHO_CALLED, (server, tool, since_us // HOUR_US, limit))

    def top(self, subject: str, since_us: int, limit: int) -> Rows:
        """Return who or what calls were most of since the hour of `since_us`.

        `subject` is `principal`, `client` or `tool`.
        """
        hour, until, day = _spans(since_us)
        return self._counted(_TOP, (subject, hour, until, subject, day, limit))

    def undeclared(self, since_us: int, limit: int) -> Rows:
        """Return through which clients calls declared no task, or one that does not count.

        Since the hour of `since_us`; those with most of them first.
        """
        spans = _spans(since_us)
        return self._counted(_UNDECLARED, (*spans, limit))

    def refusals(self, since_us: int, limit: int, until_us: int | None = None) -> Rows:
        """Return how often what was refused by which rule since the hour of `since_us`.

        With `until_us`, the `trend` of each says how often in each 25th of the time until then.
        """
        since = since_us // HOUR_US
        rows = self._counted(_REFUSED_BY, (since, limit))
        if until_us is None:
            return rows
        part = max(1, -(-(until_us // HOUR_US + 1 - since) // PARTS))
        trends: dict[tuple[str, ...], list[int]] = {}
        for *told, place, records in self._rows(_REFUSED_WHEN, (since, part, since)):
            trend = trends.setdefault(tuple(told), [0] * PARTS)
            trend[min(max(place, 0), PARTS - 1)] += records
        return [{**row, "trend": trends.get(_rule_of(row), [0] * PARTS)} for row in rows]

    def flows(self, source: str, server: str | None, since_us: int, limit: int) -> Rows:
        """Return which tools got calls of runs that had seen data of `source`."""
        found = (source, since_us // HOUR_US, server, server, limit)
        return self._counted(_FLOWS, found)

    def refused(self, since_us: int, before: tuple[int, int], limit: int) -> Rows:
        """Return the newest refusals before a time and leaf index, newest first."""
        one = f"SELECT * FROM ({_REFUSED}) AS one"  # noqa: S608 - fixed text
        many = " UNION ALL ".join([one] * len(_REFUSALS))
        parameters = [each for verdict in _REFUSALS for each in (verdict, since_us, *before, limit)]
        sql = f"{many} ORDER BY time_us DESC, leaf_index DESC LIMIT ?"
        return [record_of(*row[1:]) for row in self._rows(sql, (*parameters, limit))]

    def outside(
        self,
        source: str,
        since_us: int,
        before: tuple[int, int],
        allowed: bool | None,
        limit: int,
    ) -> Rows:
        """Return the newest calls that sent, or were to send, something outside, newest first.

        Outside is what is not proven to be our own; of calls in runs that had seen data of
        `source`, and only where they were `allowed` or not, if that is said.
        """
        found = self._rows(
            _OUTSIDE.format(beside=self._beside),
            (source, since_us, *before, allowed, allowed, limit),
        )
        return [record_of(*row) for row in found]

    def records(self, leaves: Sequence[int]) -> Rows:
        """Return the records of these leaf indexes that are there, in this order."""
        if not leaves:
            return []  # of an empty list the engine looks at every record
        places = ", ".join("?" * len(leaves))
        rows = self._rows(
            "SELECT leaf_index, leaf_hash, CAST(body AS BLOB) FROM audit"  # noqa: S608 - placeholders
            f" WHERE leaf_index IN ({places})",
            leaves,
        )
        found = {row[0]: record_of(*row) for row in rows}
        return [found[leaf] for leaf in leaves if leaf in found]

    def signed(self) -> int:
        """Return how many records the newest checkpoint vouches for."""
        ((size,),) = self._rows("SELECT coalesce(max(size), 0) FROM checkpoints", ())
        return int(size)

    def _counted(self, sql: str, parameters: Sequence[Any]) -> Rows:
        with self._bounded():
            cursor = self._readable.execute(sql, parameters)
            names = [column[0] for column in cursor.description]
            return [dict(zip(names, row, strict=True)) for row in cursor.fetchall()]

    def _rows(self, sql: str, parameters: Sequence[Any]) -> list[Any]:
        with self._bounded():
            return self._readable.execute(sql, parameters).fetchall()


def _spans(since_us: int) -> tuple[int, int, int]:
    """Return the hours from which on and before which counts are by hours, and the first day."""
    hour = since_us // HOUR_US
    day = -(-hour // (DAY_US // HOUR_US))  # the first that is whole
    return hour, day * (DAY_US // HOUR_US), day


_ID = "(SELECT id FROM words.names WHERE name = ?)"

_WHO_CALLED = f"""
SELECT p.name AS principal, c.name AS client, calls, refused, last_us FROM (
    SELECT principal, client, sum(calls) AS calls, sum(refused) AS refused,
        max(last_us) AS last_us
    FROM words.used WHERE server = {_ID} AND target = {_ID} AND hour >= ?
    GROUP BY principal, client ORDER BY calls DESC, last_us DESC LIMIT ?
) AS u JOIN words.names AS p ON p.id = principal JOIN words.names AS c ON c.id = client
ORDER BY calls DESC, last_us DESC
"""  # noqa: S608 - fixed text, so for all of these

_TOP = """
SELECT w.name AS server, n.name AS name, calls, refused, last_us FROM (
    SELECT within, name, sum(calls) AS calls, sum(refused) AS refused, max(last_us) AS last_us
    FROM (
        SELECT within, name, calls, refused, last_us FROM words.totals
        WHERE subject = ? AND span = 'hour' AND bucket >= ? AND bucket < ?
        UNION ALL
        SELECT within, name, calls, refused, last_us FROM words.totals
        WHERE subject = ? AND span = 'day' AND bucket >= ?
    ) AS spans GROUP BY within, name ORDER BY calls DESC, last_us DESC LIMIT ?
) AS t JOIN words.names AS w ON w.id = t.within JOIN words.names AS n ON n.id = t.name
ORDER BY calls DESC, last_us DESC
"""

_OF_CLIENTS = "('client', 'undeclared', 'ignored')"
_UNDECLARED = f"""
SELECT n.name AS client, calls, undeclared, ignored, last_us FROM (
    SELECT name, sum(calls) FILTER (WHERE subject = 'client') AS calls,
        coalesce(sum(calls) FILTER (WHERE subject = 'undeclared'), 0) AS undeclared,
        coalesce(sum(calls) FILTER (WHERE subject = 'ignored'), 0) AS ignored,
        max(last_us) FILTER (WHERE subject <> 'client') AS last_us
    FROM (
        SELECT subject, name, calls, last_us FROM words.totals
        WHERE subject IN {_OF_CLIENTS} AND span = 'hour' AND bucket >= ? AND bucket < ?
        UNION ALL
        SELECT subject, name, calls, last_us FROM words.totals
        WHERE subject IN {_OF_CLIENTS} AND span = 'day' AND bucket >= ?
    ) AS spans GROUP BY name
) AS t JOIN words.names AS n ON n.id = t.name
WHERE undeclared + ignored > 0
ORDER BY undeclared + ignored DESC, last_us DESC LIMIT ?
"""  # noqa: S608

PARTS = 25
"""Into which the time of an answer is cut for its trends."""

_REFUSED_BY = """
SELECT rule, code, verdict, kind, sum(records) AS records, max(last_us) AS last_us
FROM words.refusals WHERE hour >= ?
GROUP BY rule, code, verdict, kind ORDER BY records DESC, last_us DESC LIMIT ?
"""

_REFUSED_WHEN = """
SELECT rule, code, verdict, kind, (hour - ?) / ? AS place, sum(records)
FROM words.refusals WHERE hour >= ? GROUP BY rule, code, verdict, kind, place
"""


def _rule_of(row: Row) -> tuple[str, ...]:
    return row["rule"], row["code"], row["verdict"], row["kind"]


_FLOWS = f"""
SELECT s.name AS server, t.name AS tool, effect, calls, refused, outside, last_us FROM (
    SELECT server, target, effect, sum(calls) AS calls, sum(refused) AS refused,
        sum(outside) AS outside, max(last_us) AS last_us
    FROM words.flow_counts
    WHERE source = {_ID} AND hour >= ? AND (CAST(? AS TEXT) IS NULL OR server = {_ID})
    GROUP BY server, target, effect ORDER BY calls DESC, last_us DESC LIMIT ?
) AS f JOIN words.names AS s ON s.id = f.server JOIN words.names AS t ON t.id = f.target
ORDER BY calls DESC, last_us DESC
"""  # noqa: S608

_REFUSED = """
SELECT time_us, leaf_index, leaf_hash, CAST(body AS BLOB) AS body FROM audit
WHERE verdict = ? AND verdict <> 'allow' AND kind <> 'approval' AND time_us >= ?
    AND (time_us, leaf_index) < (?, ?)
ORDER BY time_us DESC, leaf_index DESC LIMIT ?
"""

_OUTSIDE = f"""
SELECT leaf_index, leaf_hash, CAST(body AS BLOB)
FROM words.flows AS f {{beside}} JOIN audit USING (leaf_index)
WHERE f.source = {_ID} AND f.outside AND f.time_us >= ?
    AND (f.time_us, f.leaf_index) < (?, ?) AND (CAST(? AS BOOLEAN) IS NULL OR f.allowed = ?)
ORDER BY f.time_us DESC, f.leaf_index DESC LIMIT ?
"""  # noqa: S608
