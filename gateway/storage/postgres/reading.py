"""The log in PostgreSQL, read as that in SQLite is: by the same statements and the same code."""

import sqlite3
from collections.abc import Sequence
from typing import Any, Self

import psycopg

from gateway.audit.checkpoint import VerifierKey
from gateway.audit.cosignature import WitnessKey
from gateway.storage.connection import Rows
from gateway.storage.postgres.connection import Connection, connect
from gateway.storage.postgres.terms import filed
from gateway.storage.reader import LogReader
from gateway.storage.verify import Verification, verify_in


class Reading:
    """A `Readable` over a connection. The tables have SQLite's names, and `blob` is a type of ours."""

    def __init__(self, connection: Connection) -> None:
        self._connection = connection

    def execute(self, sql: str, parameters: Sequence[Any] = (), /) -> Rows:
        """Return the rows that a statement finds; its placeholders are question marks.

        Raises:
            sqlite3.OperationalError: They cannot be read.

        """
        try:
            return self._connection.execute(sql.replace("?", "%s").encode(), parameters)
        except psycopg.Error as error:
            raise sqlite3.OperationalError(str(error)) from error

    def close(self) -> None:
        self._connection.close()


class PostgresLogReader(LogReader):
    """What is in the log: what lies in the tray is not, for a moment."""

    @classmethod
    def open(cls, conninfo: str) -> Self:
        """Connect for reading.

        Raises:
            psycopg.OperationalError: PostgreSQL cannot be reached.

        """
        return cls(Reading(connect(conninfo, application="douane reader")))


def verify_log(
    connection: Connection,
    verifier: VerifierKey,
    *,
    checkpoints: Sequence[tuple[str, str]] = (),
    witnesses: Sequence[WitnessKey] = (),
) -> Verification:
    """Compare the log with itself and with every checkpoint there is; see `verify`."""
    return verify_in(
        Reading(connection), verifier, checkpoints=checkpoints, witnesses=witnesses, filed=filed
    )
