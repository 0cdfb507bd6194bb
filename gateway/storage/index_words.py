"""The words of reasons, in a table for each range of leaf indexes.

SQLite cannot take the words of single records out of such a table. So a table is dropped once the
log has no record of its range any more; the one of the range in which the log's first record
stands is dropped too, and made anew of those that are left, a batch at a time.
"""

import sqlite3

from gateway.storage.index_steps import TAKE
from gateway.storage.index_tables import PARTITION

_SHOWN = 100
"""SQLite reads no more than 500 tables as one."""

_WORDS = """
SELECT leaf_index, words FROM (
    SELECT leaf_index, CASE
        WHEN json_type(reasons) = 'array' THEN (
            SELECT group_concat(
                ifnull(json_extract(r.value, '$.code'), '') || ' '
                || ifnull(json_extract(r.value, '$.message'), ''), ' '
            )
            FROM json_each(reasons) AS r WHERE r.type = 'object'
        ) END AS words
    FROM temp.taken WHERE reasons IS NOT NULL
) WHERE words IS NOT NULL
"""


def table_of(begin: int) -> str:
    """Return the name of the table of the range that begins with a leaf index."""
    return f"reasons_{begin}"


def end_of(leaf_index: int) -> int:
    """Return the last leaf index of the range in which this one is."""
    return leaf_index - leaf_index % PARTITION + PARTITION - 1


def take_up(connection: sqlite3.Connection, after: int, through: int) -> None:
    """Put in the words of what was read: the records after `after` up to `through`, of one range.

    Where the table is being made anew and has not come to `after`, that does so.
    """
    begin = through - through % PARTITION
    known = connection.execute(
        "SELECT through FROM partitions WHERE begin = ?", (begin,)
    ).fetchone()
    if known is None:
        _make(connection, begin, after)
        _show(connection)
    elif known[0] < after:
        return
    _put_in(connection, begin, through)


def behind(connection: sqlite3.Connection) -> tuple[int, int, int] | None:
    """Return of a table that is being made anew its range's first leaf index.

    And the last one whose words are in it, and the last one whose are to be.
    """
    found: tuple[int, int, int] | None = connection.execute(
        _BEHIND, {"most": PARTITION - 1}
    ).fetchone()
    return found


def go_on(connection: sqlite3.Connection, table: tuple[int, int, int], most: int) -> None:
    """Put the words of at most so many records into a table that is `behind`."""
    begin, after, last = table
    through = min(after + most, last)
    for step in TAKE:
        connection.execute(step, {"after": after, "through": through})
    _put_in(connection, begin, through)


def forget(connection: sqlite3.Connection, first: int, through: int) -> None:
    """Drop the tables in which words of records before `first` may be.

    `through` is the last record in the index: what is left before it, `go_on` puts in again.
    """
    found = connection.execute("SELECT begin FROM partitions WHERE begin < ?", (first,)).fetchall()
    for (begin,) in found:
        connection.execute(f"DROP TABLE {table_of(begin)}")
        connection.execute("DELETE FROM partitions WHERE begin = ?", (begin,))
        if first <= min(through, end_of(begin)):
            _make(connection, begin, first - 1)
    if found:
        _show(connection)


def _make(connection: sqlite3.Connection, begin: int, after: int) -> None:
    connection.execute(
        f"CREATE VIRTUAL TABLE {table_of(begin)} USING fts5 (words, content = '', columnsize = 0)"
    )
    connection.execute("INSERT INTO partitions VALUES (?, ?)", (begin, after))


def _show(connection: sqlite3.Connection) -> None:
    """Have the newest tables be one view, for whoever looks into the file."""
    newest = connection.execute(
        "SELECT begin FROM partitions ORDER BY begin DESC LIMIT ?", (_SHOWN,)
    ).fetchall()
    each = [f"SELECT rowid AS leaf_index, words FROM {table_of(begin)}" for (begin,) in newest]  # noqa: S608 - numbers
    connection.execute("DROP VIEW IF EXISTS reasons")
    if each:
        connection.execute(f"CREATE VIEW reasons AS {' UNION ALL '.join(each)}")


def _put_in(connection: sqlite3.Connection, begin: int, through: int) -> None:
    table = table_of(begin)
    connection.execute(f"INSERT INTO {table} (rowid, words) {_WORDS}")
    connection.execute("UPDATE partitions SET through = ? WHERE begin = ?", (through, begin))
    if through == end_of(begin):
        connection.execute(f"INSERT INTO {table} ({table}) VALUES ('optimize')")  # noqa: S608 - as above


_BEHIND = """
SELECT p.begin, p.through, min(p.begin + :most, i.through)
FROM partitions AS p, progress AS i
WHERE p.through < min(p.begin + :most, i.through)
ORDER BY p.begin LIMIT 1
"""
