"""One connection on which one replica appends, and what became of it when it is lost."""

import asyncio
import secrets
from collections.abc import Collection, Coroutine, Sequence
from contextlib import suppress
from enum import StrEnum
from typing import Any, Final, Self, TypeVar

import psycopg

from gateway.domain._value import value
from gateway.storage.postgres.arrays import use_arrays
from gateway.storage.postgres.connection import addressed, session_settings
from gateway.storage.postgres.terms import PUT, arguments

T = TypeVar("T")

Connection = psycopg.AsyncConnection[tuple[Any, ...]]

Row = tuple[int, str | None, str | None]
"""The number of a record, and why it was not kept, or a run that it has raised."""


@value
class Mark:
    """A place in a lane."""

    lane: int
    n: int


_END: Final = "SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE application_name = %s"
_AGAIN_S: Final = 0.05
_abandoned: Final[set[asyncio.Future[Any]]] = set()
"""What nobody waits for any more, and is not to vanish while it is under way."""


class Keeps(StrEnum):
    """What a record survives once it is acknowledged."""

    REPLICATED = "replicated"
    """The loss of the server's machine: a standby has it on its disk as well."""
    POWER = "power"
    """A crash of that machine."""
    PROCESS = "process"
    """The end of the gateway; such a crash may take the last second."""


_KEPT: Final = {
    Keeps.REPLICATED: b"SELECT set_config('douane.replicated', 'on', false), require_standby_1()",
    Keeps.POWER: b"SELECT 1",
    Keeps.PROCESS: b"SET synchronous_commit = off",
}


class NotThere(Exception):
    """What was acknowledged is not in the database any more."""


class LaneLost(Exception):
    """Its connection is gone, or no answer came in time: nobody knows what became of the last batch."""


class Lane:
    """Puts one batch after the other, each in a transaction of its own."""

    def __init__(self, connection: Connection, lane: int, *, conninfo: str, name: str) -> None:
        """Take over a connection; see `open`."""
        self._connection = connection
        self._lane = lane
        self._conninfo = conninfo
        self._name = name
        self._newest = 0
        self._kept = 0
        """The newest of its numbers that was kept, and told."""

    @classmethod
    async def open(
        cls,
        conninfo: str,
        *,
        replica: str,
        keeps: Keeps,
        within_s: float,
        after: Mark | None = None,
    ) -> Self:
        """Return a new lane of that replica, where all is there up to the mark `after`.

        Raises:
            psycopg.Error: There is none to be had now.
            TimeoutError: The same.
            NotThere: What was acknowledged is gone: another server took over, or a backup was put back.

        """
        name = f"douane lane {secrets.token_hex(8)}"  # no other connection is called so
        async with asyncio.timeout(within_s):
            connection = await _connected(conninfo, name)
            try:
                await connection.execute(_KEPT[keeps])
                if after is not None:
                    await _require(connection, after, replica)
                found = await connection.execute("SELECT open_lane_1(%s)", (replica,))
                row = await found.fetchone()
            except BaseException:
                await connection.close()
                raise
        (lane,) = row or (0,)
        return cls(connection, int(lane), conninfo=conninfo, name=name)

    async def put(self, rows: Sequence[tuple[Any, ...]], *, within_s: float) -> list[Row]:
        """Put a batch, whose records have the numbers from `newest + 1` on.

        Raises:
            LaneLost: It is not known what became of it.
            psycopg.Error: The server has said no; nothing has happened, and the lane is as it was.

        """
        first = self._newest + 1
        given = (self._lane, *arguments(first, rows))
        try:
            answer: list[Row] = await _within(within_s, self._answered(given))
        except psycopg.Error as error:
            if self._connection.closed or self._connection.broken:
                raise LaneLost(str(error)) from error
            raise
        except TimeoutError as error:
            raise LaneLost("PostgreSQL did not answer in time") from error
        self._newest = first + len(rows) - 1
        lost = {n for n, changed, _ in answer if changed is not None}
        self._kept = max({*range(first, self._newest + 1)} - lost, default=self._kept)
        return answer

    @property
    def mark(self) -> Mark | None:
        """Up to where it was acknowledged; `None` if nothing was."""
        return Mark(lane=self._lane, n=self._kept) if self._kept else None

    @property
    def next(self) -> int:
        """The number of the next batch's first record."""
        return self._newest + 1

    async def _answered(self, given: Sequence[Any]) -> list[Any]:
        return await (await self._connection.execute(PUT, given, prepare=True)).fetchall()

    async def settled(self, *, within_s: float) -> Collection[int] | None:
        """Return which numbers from `next` on are durable, once that is final; `None`: nobody knows.

        A commit that was under way when its connection was lost may still happen: only of a backend that
        is gone is it known what it did.
        """
        try:
            found = await _within(within_s, self._settled())
        except (psycopg.Error, TimeoutError):
            return None
        self._kept = max(found, default=self._kept)
        return found

    async def _settled(self) -> Collection[int]:
        while True:
            try:
                return await self._asked()
            except psycopg.OperationalError:  # it may be on its way back
                await asyncio.sleep(_AGAIN_S)

    async def _asked(self) -> Collection[int]:
        async with await _connected(self._conninfo, "douane settling") as other:
            await other.execute(_END, (self._name,))
            found = await other.execute(
                "SELECT * FROM settled_1(%s, %s)", (self._lane, self._newest)
            )
            return {n for (n,) in await found.fetchall()}

    async def close(self) -> None:
        """Let go of the connection, and with it of the lane."""
        with suppress(psycopg.Error):
            await self._connection.close()


async def _require(connection: Connection, mark: Mark, replica: str) -> None:
    given = (mark.lane, mark.n, replica)
    found = await connection.execute("SELECT reaches_1(%s, %s, %s)", given)
    if await found.fetchone() != (True,):
        raise NotThere(
            "PostgreSQL lacks what it had confirmed: a standby took over that did not have it, or a backup was put back"
        )


async def _connected(conninfo: str, name: str) -> Connection:
    connection = await psycopg.AsyncConnection.connect(
        addressed(conninfo), autocommit=True, application_name=name
    )
    try:
        use_arrays(connection.adapters)
        await connection.execute(session_settings())
    except BaseException:
        await connection.close()
        raise
    return connection


async def _within(seconds: float, awaited: Coroutine[Any, Any, T]) -> T:
    """Return what `awaited` returns in time. What is cancelled may take long to notice: it is let go.

    Raises:
        TimeoutError: It did not.

    """
    task = asyncio.ensure_future(awaited)
    done, _ = await asyncio.wait({task}, timeout=seconds)
    if done:
        return task.result()
    _abandoned.add(task)
    task.add_done_callback(_let_go)
    task.cancel()
    raise TimeoutError


def _let_go(task: "asyncio.Future[Any]") -> None:
    _abandoned.discard(task)
    if not task.cancelled():
        task.exception()
