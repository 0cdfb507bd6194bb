"""The processes of one local server: who has which, how many there are, and when they end."""

import asyncio
import secrets
from collections.abc import Iterator
from dataclasses import replace
from http import HTTPStatus
from typing import Final

import orjson

from gateway.domain.calls import RawAnswer
from gateway.errors import UpstreamFailed
from gateway.upstream.channel import Asked, Channel
from gateway.upstream.child import Child, Patience
from gateway.upstream.faults import unusable
from gateway.upstream.headers import SESSION, Headers
from gateway.upstream.jail import hides
from gateway.upstream.proxy import ForwardProxy
from gateway.upstream.reach import Reach
from gateway.upstream.settings import LocalSettings

_MOST_OF_ONE: Final = 8
"""Processes of one person, whatever clients they come with."""
_ID_OCTETS: Final = 32
_DISCOVERY_S: Final = 10.0
"""How long a server may take to say that it speaks the stateless revision; others may be silent."""


def status(code: HTTPStatus, session: str | None = None) -> RawAnswer:
    """Return an answer that says all by its status."""
    return RawAnswer(status=code, headers=(), session=session, body=b"")


class Channels:
    """Every channel to one local server, by an id that nobody can guess."""

    def __init__(self, settings: LocalSettings) -> None:
        self._settings = settings
        self._open: dict[str, Channel] = {}
        self._starting: list[str] = []
        """Whose processes will be there in a moment: they take up room already."""
        self._ending: set[asyncio.Task[None]] = set()
        self._patience = Patience(read_s=settings.timeouts.connect_s + settings.timeouts.idle_s)

    async def open(self, owner: str, *, stateless: bool, person: str = "") -> tuple[str, Channel]:
        """Start a process for `owner`, a client of `person`; it ends when it was not used for long enough.

        Raises:
            UpstreamFailed: It cannot be started, or there are too many.

        """
        settings = self._settings
        if refused := settings.refused or _refused(settings):
            raise UpstreamFailed(
                "The upstream server cannot be started on this machine.", detail=refused
            )
        self._make_room(person)
        self._starting.append(person)
        try:
            child = await Child.start(
                settings.server,
                settings.launch,
                settings.process,
                line_bytes=settings.limits.result_bytes,
                patience=self._patience,
                proxy=_proxy(settings),
            )
        finally:
            self._starting.remove(person)
        channel = Channel(child, settings, stateless=stateless, owner=owner, person=person)
        id_ = secrets.token_urlsafe(_ID_OCTETS)
        self._open[id_] = channel
        self._look_again(id_, settings.idle_s)
        return id_, channel

    def find(self, id_: str | None, owner: str) -> Channel | None:
        """Return the channel of that id, if it is `owner`'s and its process runs."""
        channel = None if id_ is None else self._open.get(id_)
        return channel if channel and channel.owner == owner and not channel.ended else None

    def of(self, owner: str) -> Iterator[Channel]:
        """Yield the channels of `owner` whose process runs, oldest first."""
        return (one for one in self._open.values() if one.owner == owner and not one.ended)

    async def end(self, id_: str) -> None:
        """End a channel and its process, if there is one; whoever waits may go."""
        if id_ in self._open:
            await asyncio.shield(self._end_soon(id_))

    async def aclose(self) -> None:
        """End every process."""
        for id_ in tuple(self._open):
            self._end_soon(id_)
        await asyncio.gather(*self._ending)

    def _make_room(self, person: str) -> None:
        """End what this person has used longest ago, where there is no room for another process."""
        self._open = {id_: one for id_, one in self._open.items() if not one.ended}
        own = {id_: one for id_, one in self._open.items() if one.person == person}
        count_own = len(own) + self._starting.count(person)
        count = len(self._open) + len(self._starting)
        if count_own < _MOST_OF_ONE and count < self._settings.processes:
            return
        unused = {one.used_at: id_ for id_, one in own.items() if not one.busy}
        if not unused:
            raise unusable("too many of its processes are in use")
        self._end_soon(unused[min(unused)])

    def _look_again(self, id_: str, after_s: float) -> None:
        asyncio.get_running_loop().call_later(after_s, self._end_if_idle, id_)

    def _end_if_idle(self, id_: str) -> None:
        channel = self._open.get(id_)
        if channel is None:
            return
        left_s = channel.used_at + self._settings.idle_s - asyncio.get_running_loop().time()
        if channel.ended or (left_s <= 0 and not channel.busy):
            self._end_soon(id_)
        else:
            self._look_again(id_, max(left_s, self._settings.idle_s / 10))

    def _end_soon(self, id_: str) -> asyncio.Task[None]:
        channel = self._open.pop(id_)
        task = asyncio.create_task(channel.aclose())
        self._ending.add(task)
        task.add_done_callback(self._ending.discard)
        return task


def _refused(settings: LocalSettings) -> str:
    """Return why it cannot be started as things are by now; empty if it can.

    A server that may change a folder can exchange what lies in it, its own program too.
    """
    return "; ".join(hides(settings.launch, settings.concealed, settings.changeable))


def _proxy(settings: LocalSettings) -> ForwardProxy | None:
    """Return the way out of one more process, if it has one: nothing keeps to it without a jail."""
    launch = settings.launch
    if not launch.jailed or not launch.reach:
        return None
    return ForwardProxy(settings.server, Reach(destinations=launch.reach), settings.way_out)


class LocalExchange:
    """One local server, as the gateway's own client speaks to it: a process per conversation."""

    def __init__(self, settings: LocalSettings) -> None:
        self._channels = Channels(settings)

    async def send(
        self, verb: str, headers: Headers, body: bytes, *, listens: bool = False
    ) -> RawAnswer:
        """Send one message; the first of a conversation starts a process, and DELETE ends it.

        Raises:
            UpstreamFailed: No answer in time, or not one of MCP.
            LimitExceeded: The answer is larger than the limits allow.

        """
        session = dict(headers).get(SESSION)
        if verb == "POST" and session is None:
            session, channel = await self._channels.open("", stateless=_is_discovery(body))
            return await self._opening(session, channel, body)
        found = self._channels.find(session, "")
        if verb == "DELETE" and session is not None:
            await self._channels.end(session)
            return status(HTTPStatus.OK)
        if found is None or verb != "POST" or listens:
            return status(HTTPStatus.NOT_FOUND)
        return await _sent(found, body)

    async def aclose(self) -> None:
        """End every process."""
        await self._channels.aclose()

    async def _opening(self, session: str, channel: Channel, body: bytes) -> RawAnswer:
        opened = False
        try:
            patience_s = _DISCOVERY_S if channel.stateless else None
            async with asyncio.timeout(patience_s):
                answer = await _sent(channel, body)
            opened = True
            return replace(answer, session=session)
        except (UpstreamFailed, TimeoutError):
            if channel.stateless:
                # So answer servers that do not know the question (MCP 2026-07-28, stdio, backward
                # compatibility): those of the older revisions may also end, or say nothing.
                return status(HTTPStatus.NOT_FOUND)
            raise
        finally:
            if not opened:
                await self._channels.end(session)


def _is_discovery(body: bytes) -> bool:
    method: str = orjson.loads(body)["method"]
    return method == "server/discover"


async def _sent(channel: Channel, body: bytes) -> RawAnswer:
    message = orjson.loads(body)
    if "id" not in message:
        await channel.tell(body)
        return status(HTTPStatus.ACCEPTED)
    return await channel.ask(
        Asked.of(body, message["id"], message["method"], message.get("params", {}))
    )
