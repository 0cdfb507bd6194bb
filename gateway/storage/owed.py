"""What planes owe, as records say it: kept in the transaction that takes them.

A plane's intent says what its call may bring at worst, and an outcome that somebody knows what it
did. So nothing is written beside the record, and what is durable of one is of both.
"""

from collections.abc import Iterable, Iterator, Sequence
from functools import cache
from typing import Final, TypeVar

import orjson

from gateway.audit.record import COLUMNS, Entry
from gateway.domain.audit import RecordKind
from gateway.domain.flow import source_name
from gateway.storage.state import Tables

PLANE: Final = b'"plane":"'
_OWES: Final = b'"owes":{'
"""In a text of a record's their quotation marks would be escaped."""
_KIND, _DECISION = COLUMNS.index("kind"), COLUMNS.index("decision_id")

_AT_ONCE: Final = 64
"""Rows of one statement: each gives up the interpreter and waits for it again."""

T = TypeVar("T")
_Row = tuple[str | float, ...]


def keep_owed(tables: Tables, entries: Iterable[Entry]) -> None:
    """Keep what is owed by `entries`, in their order; what ends among them as well was never kept."""
    owed: dict[str, _Row] = {}
    ended: list[str] = []
    for entry in entries:
        if PLANE not in entry.body:
            continue
        kind, decision = entry.columns[_KIND], str(entry.columns[_DECISION])
        if kind == RecordKind.OUTCOME and owed.pop(decision, None) is None:
            ended.append(decision)
        elif kind == RecordKind.INTENT and _OWES in entry.body and (row := _row(entry.body)):
            owed[decision] = row
    for part in _in_parts(ended):
        tables.execute(_end(len(part)), part)
    for rows in _in_parts(list(owed.values())):
        tables.execute(_keep(len(rows)), [column for row in rows for column in row])


def _in_parts(items: Sequence[T]) -> Iterator[Sequence[T]]:
    for start in range(0, len(items), _AT_ONCE):
        yield items[start : start + _AT_ONCE]


@cache
def _keep(rows: int) -> str:
    names = "decision, run, server, tool, record, integrity, confidentiality, due"
    row = f"({', '.join('?' * 8)})"
    values = ", ".join([row] * rows)
    return f"INSERT INTO plane_debts ({names}) VALUES {values} ON CONFLICT DO NOTHING"  # noqa: S608 - fixed


@cache
def _end(rows: int) -> str:
    return f"DELETE FROM plane_debts WHERE decision IN ({', '.join('?' * rows)})"  # noqa: S608 - fixed


def _row(body: bytes) -> _Row | None:
    """Return what a record owes; a member of that name anywhere else in it is nothing."""
    said = orjson.loads(body)
    worst = said.get("owes")
    if worst is None:
        return None
    return (
        said["decision_id"],
        said["run"],
        said["server"],
        source_name(said["target"]),
        said["id"],
        worst["integrity"],
        worst["confidentiality"],
        worst["until"],
    )
