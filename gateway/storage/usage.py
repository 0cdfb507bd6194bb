"""What is used of quotas, added up from the records that say so, in the transaction that takes them."""

import sqlite3
from collections.abc import Iterable, Sequence
from typing import Any, Final

import orjson

from gateway.audit.record import Entry
from gateway.domain.quotas import Charge

_MARK: Final = b'"charged":['
"""In a text of a record's its quotation marks would be escaped."""

_ADD: Final = """
INSERT INTO usage (quota, under, begin, used) VALUES (?, ?, ?, ?)
ON CONFLICT (quota, under) DO UPDATE SET
    used = CASE
        WHEN excluded.begin > begin THEN excluded.used
        WHEN excluded.begin = begin THEN used + excluded.used
        ELSE used
    END,
    begin = max(begin, excluded.begin)
"""


class Usage:
    """Adds up what records charge. Used by the writer's thread alone."""

    def __init__(self) -> None:
        self._begins: dict[str, int] = {}
        """The newest span that a charge was seen of, by quota."""

    def add(self, connection: sqlite3.Connection, entries: Iterable[Entry]) -> None:
        """Add what `entries` charge, and forget what was used in spans that are over."""
        rows = [row for entry in entries if _MARK in entry.body for row in _charges(entry.body)]
        if not rows:
            return
        connection.executemany(_ADD, rows)
        for quota, begin in {(quota, begin) for quota, _, begin, _ in rows}:
            if begin > self._begins.get(quota, 0):
                self._begins[quota] = begin
                connection.execute(
                    "DELETE FROM usage WHERE quota = ? AND begin < ?", (quota, begin)
                )


def used(connection: sqlite3.Connection) -> Sequence[Charge]:
    """Return what is used of each quota, by what the log has."""
    rows = connection.execute("SELECT quota, under, begin, used FROM usage ORDER BY begin")
    return [
        Charge(quota=quota, under=tuple(orjson.loads(under)), begin=begin, amount=amount)
        for quota, under, begin, amount in rows
    ]


def _charges(body: bytes) -> list[tuple[str, str, int, int]]:
    """Return what a record charges; a member of that name anywhere else in it is none."""
    charged: list[dict[str, Any]] = orjson.loads(body).get("charged", [])
    return [
        (one["quota"], orjson.dumps(one["under"]).decode(), one["begin"], one["amount"])
        for one in charged
    ]
