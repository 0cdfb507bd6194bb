"""What followers read of the log in PostgreSQL, and which of the replicas follows it."""

import asyncio
import sqlite3
from collections.abc import Callable, Mapping, Sequence
from typing import Final

import psycopg

from gateway.errors import AuditUnavailable
from gateway.ports.following import StoredRecord
from gateway.storage.postgres.connection import Connection, connect
from gateway.storage.postgres.locks import Lock
from gateway.storage.postgres.reading import SharedReading

RECORDS: Final = (
    "SELECT leaf_index, leaf_hash, body FROM audit WHERE leaf_index > ? ORDER BY leaf_index LIMIT ?"
)
CHECKPOINTS: Final = (
    "SELECT size - 1, CAST('' AS bytea), convert_to(note, 'UTF8') FROM checkpoints"
    " WHERE size - 1 > ? ORDER BY size LIMIT ?"
)
NEWEST_CHECKPOINT: Final = (
    "SELECT size - 1, CAST('' AS bytea), convert_to(note, 'UTF8') FROM checkpoints"
    " WHERE size - 1 > ? ORDER BY size DESC LIMIT least(1, ?)"
)

_EVERY_S: Final = 1.0
_PATIENCE_S: Final = 3.0
_ASKS: Final[Mapping[Lock, Mapping[str, str]]] = {Lock.FOLLOW: {"idle_session_timeout": "10s"}}
"""Whoever follows asks every second: one that does not stands still, and the server gives its turn away."""


class PostgresSource:
    """A `RecordSource` with a connection of its own, which it makes anew after a failure."""

    def __init__(self, conninfo: str, sql: str) -> None:
        self._reading = SharedReading.of(conninfo)
        self._sql = sql

    def stored_after(self, leaf_index: int, limit: int) -> Sequence[StoredRecord]:
        """Return the records after that of `leaf_index`, oldest first; see `RecordSource`."""
        try:
            rows = self._reading.execute(self._sql, (leaf_index, limit)).fetchall()
        except sqlite3.Error as error:
            raise AuditUnavailable("the audit log cannot be read", detail=str(error)) from error
        return [
            StoredRecord(leaf_index=index, leaf_hash=leaf, body=body) for index, leaf, body in rows
        ]

    def close(self) -> None:
        self._reading.close()


class PostgresTurn:
    """A `Turn`: the lock of a session, which ends with it. Cursors make up for what overlaps."""

    def __init__(self, conninfo: str, lock: Lock = Lock.FOLLOW) -> None:
        self._conninfo = conninfo
        self._lock = lock
        self._connection: Connection | None = None

    async def taken(self) -> None:
        """Return once no other replica has the turn and this one does."""
        await _until(self.tried)

    async def lost(self) -> None:
        """Return once it is not known any more that this replica has the turn."""
        await _until(lambda: not self._has_it())

    def close(self) -> None:
        """Let another replica have it, or this one again."""
        connection, self._connection = self._connection, None
        if connection is not None:
            connection.let_go()

    def tried(self) -> bool:
        """Say whether this replica has the turn now, which it takes if no other one has it."""
        try:
            return self.asked()
        except psycopg.Error:
            self.close()
            return False

    def asked(self) -> bool:
        """Do the same.

        Raises:
            psycopg.Error: Nobody can say.

        """
        if self._connection is None:
            self._connection = connect(
                self._conninfo,
                application="douane following",
                patience_s=_PATIENCE_S,
                settings=_ASKS.get(self._lock, {}),
            )
        row = self._connection.execute(
            "SELECT pg_try_advisory_lock(%s, 0)", (self._lock,)
        ).fetchone()
        return row == (True,)

    def _has_it(self) -> bool:
        try:
            if self._connection is None:
                return False
            self._connection.execute(b"")
        except psycopg.Error:
            self.close()
            return False
        return True


async def _until(holds: Callable[[], bool]) -> None:
    """Return once it holds: only the server knows, so it is asked again and again."""
    while True:
        if await asyncio.to_thread(holds):
            return
        await asyncio.sleep(_EVERY_S)
