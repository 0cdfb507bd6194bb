"""A search for words, a stretch of the log after the other, until a page is full.

The words lie in a table for each range of leaf indexes, and what is asked for is mostly in the
newest. A stretch is told by leaf indexes and the order of a page is by time, which is nearly the
same: the index knows the oldest and the newest time of every few thousand records. So a page ends
where no record that is left can come before its last one.
"""

import sqlite3
from collections.abc import Iterator, Sequence
from itertools import accumulate
from typing import NamedTuple

from gateway.audit.query import Order, Statement
from gateway.audit.words import REASONS
from gateway.storage.index_tables import PARTITION, SPAN
from gateway.storage.index_words import table_of

_MORE = 8
"""By how much a stretch is longer than the one before: what is rare is looked for everywhere."""
_AFTER_ALL = 1 << 62

_Place = tuple[int, int]
"""A record's time and leaf index."""


class _Stretch(NamedTuple):
    """Records of leaf indexes from `first` to `last`, both among them."""

    first: int
    last: int
    oldest_us: int
    newest_us: int
    indexed: bool
    """Whether the words of all of them are in the index; else those of none are."""


def searched(connection: sqlite3.Connection, statement: Statement) -> list[int]:
    """Return the leaf indexes of the records that a statement with words selects, in its order.

    The connection is in a transaction, and has the index attached as `words`.
    """
    newest = statement.order is Order.NEWEST
    oldest_us, newest_us = statement.between_us
    stretches = [
        each
        for each in _stretches(connection)
        if each.newest_us >= oldest_us and each.oldest_us <= newest_us
    ]
    if newest:
        stretches.reverse()
    found: list[_Place] = []
    at, longest = 0, 1
    best = _best(stretches, newest=newest)
    while at < len(stretches):
        if len(found) == statement.limit and _is_before(found[-1][0], best[at], newest=newest):
            break
        end = _joined(stretches, at, at + longest)
        found += _found(connection, statement, _whole(stretches[at:end]))
        found.sort(reverse=newest)
        del found[statement.limit :]
        at, longest = end, longest * _MORE
    return [leaf_index for _, leaf_index in found]


def _stretches(connection: sqlite3.Connection) -> Iterator[_Stretch]:
    """Yield short stretches, which together are the whole log, by their leaf indexes."""
    ((through,),) = connection.execute("SELECT through FROM words.progress")
    known = dict(connection.execute("SELECT begin, through FROM words.partitions"))
    spans = connection.execute("SELECT begin, oldest_us, newest_us FROM words.spans ORDER BY begin")
    for begin, oldest_us, newest_us in spans:
        last = min(begin + SPAN - 1, through)
        with_words = min(known.get(begin - begin % PARTITION, -1), last)
        if with_words >= begin:
            yield _Stretch(begin, with_words, oldest_us, newest_us, indexed=True)
        if with_words < last:
            without = max(begin, with_words + 1)
            yield _Stretch(without, last, oldest_us, newest_us, indexed=False)
    ((oldest_us, newest_us),) = connection.execute(
        "SELECT min(time_us), max(time_us) FROM audit WHERE leaf_index > ?", (through,)
    )
    if oldest_us is not None:
        yield _Stretch(through + 1, _AFTER_ALL, oldest_us, newest_us, indexed=False)


def _best(stretches: Sequence[_Stretch], *, newest: bool) -> list[int]:
    """Return of each the time that comes first of all records in it and in those after it."""
    if newest:
        return [*accumulate((each.newest_us for each in reversed(stretches)), max)][::-1]
    return [*accumulate((each.oldest_us for each in reversed(stretches)), min)][::-1]


def _is_before(time_us: int, other_us: int, *, newest: bool) -> bool:
    return time_us > other_us if newest else time_us < other_us


def _joined(stretches: Sequence[_Stretch], at: int, most: int) -> int:
    """Return up to which one they can be searched at once: what lies side by side in one table."""
    one, end = stretches[at], at + 1
    while end < min(most, len(stretches)):
        before, each = stretches[end - 1], stretches[end]
        beside = each.first == before.last + 1 or each.last == before.first - 1
        alike = (each.first // PARTITION, each.indexed) == (one.first // PARTITION, one.indexed)
        if not (beside and alike):
            break
        end += 1
    return end


def _whole(stretches: Sequence[_Stretch]) -> _Stretch:
    return _Stretch(
        first=min(each.first for each in stretches),
        last=max(each.last for each in stretches),
        oldest_us=min(each.oldest_us for each in stretches),
        newest_us=max(each.newest_us for each in stretches),
        indexed=stretches[0].indexed,
    )


def _found(connection: sqlite3.Connection, statement: Statement, stretch: _Stretch) -> list[_Place]:
    asked = statement if stretch.indexed else statement.unindexed or statement
    first, last = stretch.first, stretch.last
    where = asked.where.replace(
        f"{REASONS} WHERE",
        f"words.{table_of(first - first % PARTITION)} WHERE rowid BETWEEN {first} AND {last} AND",
    )
    # Either the words lead to the records, or an index in the order of times does: not the rows
    # themselves, one by one.
    log = "audit NOT INDEXED WHERE " if asked.by_words and stretch.indexed else "audit WHERE +"
    way = "DESC" if asked.order is Order.NEWEST else "ASC"
    sql = (
        f"SELECT time_us, leaf_index FROM {log}leaf_index BETWEEN ? AND ?"  # noqa: S608 - fixed text and numbers
        f" AND time_us BETWEEN ? AND ? AND {where}"
        f" ORDER BY time_us {way}, leaf_index {way} LIMIT {asked.limit}"
    )
    bounds = (first, last, stretch.oldest_us, stretch.newest_us)
    return connection.execute(sql, (*bounds, *asked.parameters)).fetchall()
