"""Whether gateways may join those of a database: the row that says that it is an end of a move."""

from typing import Final

from gateway.storage.moving.mark import Moved, Way
from gateway.storage.postgres.connection import Connection
from gateway.storage.postgres.locks import Lock

_MARK: Final = "SELECT way, move, log_id, other, at FROM moving"
_KEEP: Final = (
    "INSERT INTO moving (way, move, log_id, other, at) VALUES (%s, %s, %s, %s, %s)"
    " ON CONFLICT (one) DO UPDATE SET way = excluded.way, move = excluded.move,"
    " log_id = excluded.log_id, other = excluded.other, at = excluded.at"
)
_ON_IT: Final = (
    "SELECT count(*) FROM pg_locks WHERE locktype = 'advisory' AND classid = %s AND granted"
    " AND database = (SELECT oid FROM pg_database WHERE datname = current_database())"
)
"""Each lane has its lock as long as its gateway has the connection."""


def place_of(connection: Connection) -> str:
    """Return what people call a database."""
    info = connection.info
    return f"the database {info.dbname} of PostgreSQL at {info.host or 'this machine'}"


def mark_of(connection: Connection) -> Moved | None:
    """Return why nobody may join; `None` if gateways may, or there are no tables yet."""
    if connection.execute("SELECT to_regclass('moving')").fetchone() == (None,):
        return None
    row = connection.execute(_MARK).fetchone()
    if row is None:
        return None
    way, move, log_id, other, at = row
    return Moved(way=Way(way), move=move, log_id=log_id, other=other, at=at)


def keep_mark(connection: Connection, moved: Moved) -> None:
    """Have nobody join any more."""
    said = (moved.way.value, moved.move, moved.log_id, moved.other, moved.at)
    connection.execute(_KEEP, said)


def forget_mark(connection: Connection) -> None:
    """Let gateways join."""
    connection.execute("DELETE FROM moving")


def is_served(connection: Connection) -> bool:
    """Say whether a gateway has the database."""
    return connection.execute(_ON_IT, (Lock.LANE,)).fetchone() != (0,)
