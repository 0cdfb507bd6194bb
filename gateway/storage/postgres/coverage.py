"""Until when all that is durable is signed: records lie in the tray for a moment, and then unsigned."""

import asyncio
import time
from collections.abc import Mapping
from typing import Final

import psycopg

from gateway.errors import AuditUnavailable
from gateway.storage.postgres.arrays import Numbers, use_arrays
from gateway.storage.postgres.connection import Connection, Session

_AGAIN_S: Final = 0.05
_WAITING: Final = "SELECT lane, max(n) FROM tray JOIN lanes USING (lane) WHERE n > taken AND NOT closed GROUP BY lane"
_STILL: Final = (
    "SELECT EXISTS (SELECT FROM unnest(%s::bigint[], %s::bigint[]) AS m(lane, n)"
    " JOIN lanes AS l ON l.lane = m.lane WHERE l.taken < m.n)"
)
_SIZE: Final = "SELECT size FROM tree"
_SIGNED: Final = "SELECT coalesce(max(size), 0) FROM checkpoints"


async def covered(session: Session, *, within_s: float) -> None:
    """Return once a checkpoint covers everything that is durable by now, whoever has put it.

    Raises:
        AuditUnavailable: None does in time.

    """
    try:
        await asyncio.to_thread(_wait, session, time.monotonic() + within_s)
    except psycopg.Error as error:
        raise AuditUnavailable("the log cannot be signed now", detail=str(error)) from error


def _wait(session: Session, until: float) -> None:
    marks = session.use(_waiting)
    while session.use(lambda connection: _lies(connection, marks)):
        _pause(until)
    size = session.use(lambda connection: _number(connection, _SIZE))
    while session.use(lambda connection: _number(connection, _SIGNED)) < size:
        _pause(until)


def _waiting(connection: Connection) -> Mapping[int, int]:
    use_arrays(connection.adapters)
    return dict(connection.execute(_WAITING).fetchall())


def _lies(connection: Connection, marks: Mapping[int, int]) -> bool:
    use_arrays(connection.adapters)
    given = (Numbers(marks), Numbers(marks.values()))
    return bool(marks) and connection.execute(_STILL, given).fetchone() == (True,)


def _number(connection: Connection, statement: str) -> int:
    row = connection.execute(statement.encode()).fetchone()
    return 0 if row is None else int(row[0])


def _pause(until: float) -> None:
    if time.monotonic() > until:
        raise AuditUnavailable("the log cannot be signed now", detail="nobody signs it in time")
    time.sleep(_AGAIN_S)
