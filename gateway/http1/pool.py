"""The connections to one server: lent for an exchange, and kept for a while for the next."""

import asyncio
from collections.abc import Awaitable, Callable, Container
from functools import partial
from typing import Final

from gateway.domain._value import value
from gateway.domain.room import Entry, Line, Whose
from gateway.http1.connection import Connection
from gateway.http1.faults import ConnectFailed, ConnectTimedOut, Disconnected, NoPlace
from gateway.http1.response import Patience, Response

_AGAIN: Final = frozenset({"GET", "DELETE"})
"""Idempotent ones (RFC 9110 section 9.2.2): sent once more where a kept connection proves dead."""

_BESIDE: Final = "beside\0"


def beside(who: str) -> str:
    """Return under which name it counts what belongs to requests of `who` that are under way.

    They may wait for it, so it does not wait for them.
    """
    return who and _BESIDE + who


def _no_look() -> None:
    """For what goes out at any time."""


@value
class Waits:
    """How long an exchange may take, in seconds."""

    connect_s: float
    """Until there is a connection, waiting for a free one included."""
    idle_s: float | None
    """From one byte to the next."""
    hard_s: float
    """All of it."""


class Pool:
    """As many connections as are allowed, each made by `connect` when it is needed.

    Whoever asks has half of the places at most, for what is `beside` requests another quarter, and those
    who wait for one take turns.
    """

    def __init__(
        self,
        connect: Callable[[], Awaitable[Connection]],
        *,
        most: int,
        keep_s: float,
        waits: Waits,
    ) -> None:
        """Keep a connection that nobody uses for `keep_s` seconds."""
        self._connect = connect
        self._free = most
        self._most_of_one = max(1, most // 2)
        self._most_beside = max(1, most // 4)
        self._taken_by: dict[str, int] = {}
        self._full: set[str] = set()
        """Those who have as many places as one may have."""
        self._keep_s = keep_s
        self._waits = waits
        self._lent: dict[Connection, str] = {}
        """By whom each was taken."""
        self._kept: dict[Connection, None] = {}
        """Those that nobody uses: what was used last comes last."""
        self._line = Line()
        """Those that wait for a place; who gives up is not in it."""
        self._sweeping: asyncio.TimerHandle | None = None
        self._is_closed = False

    async def send(
        self, verb: str, request: bytes, *, look: Callable[[], object] = _no_look, who: str = ""
    ) -> Response:
        """Send a request, once, and return its answer when its head is here.

        One that is idempotent is sent again, over a new connection, if the kept one that it went out
        on was closed before it said anything. `look` is called each time there is a connection, and
        if it raises nothing is sent. `who` asks: a person, or nobody for the gateway itself, which may
        have every place.

        Raises:
            HttpFault: There is no answer.

        """
        loop = asyncio.get_running_loop()
        patience = Patience(idle_s=self._waits.idle_s, until=loop.time() + self._waits.hard_s)
        kept = self._taken(who) if self._free and who not in self._full else None
        connection, was_kept = (kept, True) if kept is not None else await self._lend(patience, who)
        try:
            return await _answer(connection, request, patience, look)
        except Disconnected:
            if not was_kept or connection.heard_anything or verb not in _AGAIN:
                raise
        connection, _ = await self._lend(patience, who, is_new=True)
        return await _answer(connection, request, patience, look)

    async def aclose(self) -> None:
        """End every connection, and whatever is under way on it."""
        self._is_closed = True
        if self._sweeping is not None:
            self._sweeping.cancel()
        for connection in (*self._lent, *self._kept):
            connection.end()
        while self._serve():
            pass  # whoever waits finds that it is closed
        await asyncio.sleep(0)  # the loop lets go of them

    async def _lend(
        self, patience: Patience, who: str, *, is_new: bool = False
    ) -> tuple[Connection, bool]:
        """Return a connection, and whether it was used before.

        Raises:
            HttpFault: There is none.

        """
        self._require_open()
        until = min(asyncio.get_running_loop().time() + self._waits.connect_s, patience.until)
        has_place = False
        try:
            async with asyncio.timeout_at(until):
                await self._place(who)
                has_place = True
                if not is_new and (kept := self._taken(who, has_place=True)) is not None:
                    return kept, True
                return await self._made(who), False
        except TimeoutError as error:
            raise (ConnectTimedOut if has_place else NoPlace) from error

    async def _place(self, who: str) -> None:
        """Take a place, as soon as there is one for `who`, whose turn it is then."""
        if self._free and who not in self._full:
            self._take(who)
            return
        waiting = asyncio.get_running_loop().create_future()
        entry = Entry(1, partial(waiting.set_result, None), Whose(principal=who))
        self._line.add(entry)
        try:
            await asyncio.shield(waiting)  # whoever gives up may have a place by then
        except BaseException:
            if not self._line.leave(entry):
                self._give_place(who)
            raise

    def _take(self, who: str) -> None:
        self._free -= 1
        self._taken_by[who] = taken = self._taken_by.get(who, 0) + 1
        most = self._most_beside if who.startswith(_BESIDE) else self._most_of_one
        if who and taken >= most:
            self._full.add(who)

    def _give_place(self, who: str) -> None:
        self._free += 1
        self._full.discard(who)
        self._taken_by[who] -= 1
        if not self._taken_by[who]:
            del self._taken_by[who]
        self._serve(self._full)

    def _serve(self, besides: Container[str] = ()) -> bool:
        """Give a place to whoever is next, and say whether anybody was."""
        entry = self._line.first(lambda each: each.whose.principal not in besides)
        if entry is not None:
            self._line.serve(entry)
            self._take(entry.whose.principal)
            entry.taken()
        return entry is not None

    def _taken(self, who: str, *, has_place: bool = False) -> Connection | None:
        """Return a connection that is kept and can be used, and the place that it takes."""
        now = asyncio.get_running_loop().time()
        while self._kept:
            connection, _ = self._kept.popitem()
            is_young = now - connection.since < self._keep_s
            if connection.usable and is_young and connection.is_quiet:
                if not has_place:
                    self._take(who)
                self._lent[connection] = who
                return connection
            connection.close()
        return None

    async def _made(self, who: str) -> Connection:
        """Return a new connection for a place that was taken; without one the place is given back."""
        try:
            self._require_open()
            connection = await self._connect()
        except BaseException:
            self._give_place(who)
            raise
        connection.left = self._left
        self._lent[connection] = who
        if self._is_closed:
            connection.end()
        return connection

    def _require_open(self) -> None:
        if self._is_closed:
            raise ConnectFailed("closed")

    def _left(self, connection: Connection) -> None:
        """Keep a connection whose exchange is over, if it can be used again."""
        if connection not in self._lent:
            self._kept.pop(connection, None)
            return
        who = self._lent.pop(connection)
        if connection.usable and not self._is_closed:
            connection.since = asyncio.get_running_loop().time()
            self._kept[connection] = None
            self._sweep_later()
        else:
            connection.close()
        self._give_place(who)

    def _sweep_later(self) -> None:
        if self._sweeping is None:
            loop = asyncio.get_running_loop()
            self._sweeping = loop.call_later(self._keep_s, self._sweep)

    def _sweep(self) -> None:
        """End what was not used for too long."""
        self._sweeping = None
        oldest = asyncio.get_running_loop().time() - self._keep_s
        for connection in [one for one in self._kept if one.since <= oldest]:
            del self._kept[connection]
            connection.close()
        if self._kept:
            self._sweep_later()


async def _answer(
    connection: Connection, request: bytes, patience: Patience, look: Callable[[], object]
) -> Response:
    try:
        look()
    except BaseException:
        connection.end()
        raise
    response = connection.exchange(request, patience)
    try:
        await response.begun()
    except BaseException:
        response.close()
        raise
    return response
