"""Jobs of stores: transactions whose reads stay true until they are committed, and how those end."""

import secrets
import time
from collections.abc import Callable
from contextlib import closing
from typing import Final, TypeVar

import psycopg
from psycopg.errors import DeadlockDetected, SerializationFailure

from gateway.domain._value import value
from gateway.storage.postgres.connection import Connection, connect

T = TypeVar("T")

MOST_TRIES: Final = 20
_PAUSE_MS: Final = 2
_LONGEST_PAUSE_MS: Final = 64
_LOOKS_S: Final = 0.05

# What a job reads stays true until it is committed; otherwise it is done again. Nothing less will do:
# most jobs change what they looked at, but some change one thing because of what they saw of another.
BEGIN: Final = b"BEGIN ISOLATION LEVEL SERIALIZABLE"
LOOK: Final = b"BEGIN ISOLATION LEVEL REPEATABLE READ READ ONLY"
COMMIT: Final = b"COMMIT"

# As `life_1` says it, and nothing in a life that nobody has begun yet.
_LIFE: Final = b"(SELECT pg_postmaster_start_time()::text || ' ' || name FROM server_life)"
_MARK: Final = b"SELECT pg_current_xact_id_if_assigned()::text, " + _LIFE + b", pg_backend_pid()"
# Another server, or this one after a crash, gives the same number to somebody else's transaction.
_BECAME: Final = (
    b"SELECT CASE WHEN " + _LIFE + b" = %s THEN pg_xact_status(%s::xid8) ELSE 'unknown' END"
)
_END: Final = b"""
SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE pid = %s AND backend_xid = %s::xid8::xid
"""


class Overtaken(Exception):
    """Others' commits have ended a job at each try; nothing of it is left."""

    def __init__(self) -> None:
        super().__init__(f"others wrote the same at each of {MOST_TRIES} tries")


@value
class Mark:
    """By what a transaction that was being committed is known afterwards."""

    transaction: str
    server: str | None
    """Its life: numbers of transactions are one server's, until it ends or crashes."""
    backend: int


class Unsettled(Exception):
    """The connection was lost while a transaction was being committed: it may be, and may not."""

    def __init__(self, mark: Mark, result: object) -> None:
        super().__init__("the connection was lost while a change was being committed")
        self.mark = mark
        self.result = result
        """What the job has returned."""


def again(made: Callable[[], T]) -> T:
    """Return what `made` returns, which is done anew where another's commit has ended it.

    Raises:
        Overtaken: Others have, each time.

    """
    for number in range(MOST_TRIES):
        try:
            return made()
        except (SerializationFailure, DeadlockDetected):
            longest = min(_PAUSE_MS << number, _LONGEST_PAUSE_MS)
            time.sleep(secrets.randbelow(1000 * longest) / 1e6)
    raise Overtaken


def committed(connection: Connection, job: Callable[[], T]) -> tuple[T, str | None]:
    """Return what `job` returns, and its transaction if it has changed anything; it is durable.

    Raises:
        Unsettled: Nobody knows whether they are; see `became`.
        psycopg.Error: They are not made.

    """
    connection.execute(BEGIN)
    result = job()
    ((transaction, server, backend),) = connection.execute(_MARK).fetchall()
    try:
        connection.execute(COMMIT)
    except psycopg.OperationalError as error:
        if transaction is None or not (connection.closed or connection.broken):
            raise
        mark = Mark(transaction=transaction, server=server, backend=backend)
        raise Unsettled(mark, result) from error
    return result, transaction


def became(conninfo: str, mark: Mark, *, within_s: float) -> bool | None:
    """Return whether a transaction was committed, once that is final; `None`: nobody knows.

    It may be under way still: its session is ended then.
    """
    until = time.monotonic() + within_s
    while time.monotonic() < until:
        try:
            found = _asked(conninfo, mark, within_s=until - time.monotonic())
        except psycopg.Error:  # the server may be on its way back
            found = "in progress"
        if found != "in progress":
            return {"committed": True, "aborted": False}.get(found)
        time.sleep(_LOOKS_S)
    return None


def _asked(conninfo: str, mark: Mark, *, within_s: float) -> str:
    opened = connect(conninfo, application="douane settling", patience_s=max(within_s, _LOOKS_S))
    with closing(opened) as other:
        found = other.execute(_BECAME, (mark.server, mark.transaction)).fetchone()
        became = "unknown" if found is None or found[0] is None else str(found[0])
        if became == "in progress":
            other.execute(_END, (mark.backend, mark.transaction))
        return became
