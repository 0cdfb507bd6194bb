"""A log of SQLite's, record by record the same in PostgreSQL."""

from collections.abc import Iterator
from contextlib import closing, contextmanager
from functools import partial
from pathlib import Path
from typing import Any

from gateway.audit.record import COLUMNS
from gateway.storage.connection import open_reader
from gateway.storage.database import DATABASE
from gateway.storage.index_tables import PARTITION
from gateway.storage.postgres.answers import PostgresAnswers, PostgresIndex
from gateway.storage.postgres.connection import Connection, connect
from gateway.storage.postgres.terms import filed

_PATIENCE_S = 3600.0
_EMPTIED = (
    "TRUNCATE audit, tiles, checkpoints, cosignatures, cursors, archives, holds, words.names, words.under_way,"
    " words.used, words.totals, words.refusals, words.flow_counts, words.flows, words.marks, words.reasons"
)
_BEGUN = (
    "UPDATE words.progress SET through = -1, first = 0",
    "INSERT INTO words.names (name) VALUES ('')",
    "UPDATE log_front SET first = 0",
    "UPDATE tree SET size = 0, until = '-infinity'",
)


def copy(folder: Path, address: str) -> None:
    """Have the log at `address` be that in `folder`: records, tiles and checkpoints, as they are."""
    with (
        closing(connect(address, application="test copies", patience_s=_PATIENCE_S)) as to,
        closing(open_reader(folder / DATABASE)) as log,
        to.transaction(),
    ):
        to.execute("SET LOCAL session_replication_role = replica")
        to.execute("SET LOCAL statement_timeout = 0")
        to.execute(_EMPTIED.encode())
        for statement in _BEGUN:
            to.execute(statement.encode())
        _copied(to, log)


def _copied(to: Connection, log: Any) -> None:
    (last,) = log.execute("SELECT coalesce(max(leaf_index), -1) FROM audit").fetchone()
    for size in (*range(0, last + 1, PARTITION), last + 1):
        to.execute("UPDATE tree SET size = %s", (size,))
        to.execute("SELECT make_room_1()")
    names = ", ".join(COLUMNS)
    rows = log.execute(
        f"SELECT {names}, leaf_index, leaf_hash, CAST(body AS BLOB) FROM audit ORDER BY leaf_index"
    )
    columns = f"{names}, leaf_index, leaf_hash, body, lane, n"
    with to.cursor().copy(f"COPY audit ({columns}) FROM STDIN".encode()) as told:
        for *searched, leaf, hashed, body in rows:
            told.write_row((*filed(searched), leaf, hashed, body, 0, leaf))
    for table, of in (
        ("tiles", "tile, root"),
        ("checkpoints", "size, note, previous, link"),
        ("cosignatures", "size, witness, line"),
    ):
        with to.cursor().copy(f"COPY {table} ({of}) FROM STDIN".encode()) as told:
            for row in log.execute(f"SELECT {of} FROM {table}"):
                told.write_row(row)
    (front,) = log.execute("SELECT first FROM log_front").fetchone()
    to.execute("UPDATE log_front SET first = %s", (front,))
    (log_id,) = log.execute("SELECT value FROM meta WHERE key = 'log_id'").fetchone()
    to.execute("UPDATE meta SET value = %s WHERE key = 'log_id'", (log_id,))


@contextmanager
def indexed_there(address: str, folder: Path) -> Iterator[PostgresAnswers]:
    """Give what answers questions of the log in `folder`, once its copy and its index are made."""
    copy(folder, address)
    with closing(PostgresIndex(address)) as index:
        assert index.catch_up(lambda: False).complete
    with closing(PostgresAnswers.open(address)) as answers:
        yield answers


def indexing_at(address: str) -> Any:
    return partial(indexed_there, address)
