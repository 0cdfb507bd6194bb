"""The tables of a new database, copied from the first that a process made, for a run of the tests.

Thousands of tests begin with a database of their own, and to run all migrations for it takes twenty
milliseconds of a processor. A copy is what they leave behind, to the byte. Databases that hold
something, and those whose connection is a test's own, are brought up to date in earnest.
"""

import contextlib
import functools
import sqlite3
from collections.abc import Callable
from typing import Any

from gateway.storage import database as log
from gateway.storage import schema
from gateway.storage.identity import database as identity

_migrate = schema.migrate


def begin() -> None:
    """Copy from now on, in this process and in those that are forked from it."""
    log.migrate = identity.migrate = copied  # type: ignore[assignment, attr-defined]


def make() -> None:
    """Make what is copied now, for all processes that are forked from this one."""
    _made(_migrate)
    _made(_migrate, schema.IDENTITY)


def copied(connection: sqlite3.Connection, *which: Any) -> None:
    """Do to a database what `gateway.storage.schema.migrate` does."""
    if (
        type(connection) is not sqlite3.Connection
        or connection.in_transaction
        or _holds(connection)
    ):
        _migrate(connection, *which)
        return
    with contextlib.closing(sqlite3.connect(":memory:", isolation_level=None)) as memory:
        memory.deserialize(_made(_migrate, *which))
        memory.backup(connection)


def _holds(connection: sqlite3.Connection) -> bool:
    """Tell whether there is a table in it."""
    return connection.execute("SELECT 1 FROM sqlite_schema").fetchone() is not None


@functools.cache
def _made(migrate: Callable[..., None], *which: Any) -> bytes:
    with contextlib.closing(sqlite3.connect(":memory:", isolation_level=None)) as memory:
        migrate(memory, *which)
        return memory.serialize()
