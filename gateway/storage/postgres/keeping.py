"""Changes of small tables in PostgreSQL, each a transaction: by the statements that SQLite's stores have."""

import asyncio
import sqlite3
from collections.abc import Callable
from typing import Any, Final, TypeVar

from gateway.errors import AuditUnavailable
from gateway.storage.postgres.connection import Connection, Session
from gateway.storage.postgres.reading import Reading, translated

T = TypeVar("T")

_PATIENCE_S: Final = 12.0


class PostgresJobs:
    """Runs what `Writer` runs for stores that have no memory."""

    def __init__(self, conninfo: str) -> None:
        """Connect at first use."""
        self._session = Session(conninfo, application="douane keeping", patience_s=_PATIENCE_S)

    async def run(self, job: Callable[[Any], T]) -> T:
        """Return what `job` returns, once that is committed; it gets what statements are executed by.

        Raises:
            AuditUnavailable: It is not known to be.
            sqlite3.IntegrityError: The tables do not allow it.

        """

        def in_transaction(connection: Connection) -> T:
            with connection.transaction():
                return job(Reading(connection))

        try:
            return await asyncio.to_thread(
                lambda: translated(lambda: self._session.use(in_transaction))
            )
        except sqlite3.IntegrityError:
            raise
        except sqlite3.Error as error:
            raise AuditUnavailable(
                "the audit log cannot be written now", detail=str(error)
            ) from error

    def close(self) -> None:
        self._session.close()
