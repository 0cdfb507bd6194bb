"""Streams of calls at `/mcp`: what a client has lost of one waits for it to come back.

MCP 2025-11-25, transports, resumability. A call goes on when its client's connection breaks. What a
stream says has been judged, labelled and recorded when it comes here.
"""

import asyncio
from collections.abc import AsyncGenerator, Callable, Iterator
from contextlib import aclosing
from dataclasses import replace
from typing import Final, TypeAlias

from gateway.builtin.mailbox import LARGE, Mailbox
from gateway.domain.calls import ServerEvent
from gateway.domain.labels import Label
from gateway.domain.nodes import weight
from gateway.turns import finished
from gateway.wire.jsontext import WireLimits
from gateway.wire.sse import events_of

LINGER_S: Final = 60.0
"""How long a stream that is over is kept for whoever may come back for its end."""
MOST_LEFT: Final = 8
"""Streams of one principal that nobody reads; of more the oldest ends as if nobody could come back."""
_OCTETS: Final = 32 * 1024**2
"""Of all streams together, read or not. What is not sent yet has its room where answers have theirs."""

Key: TypeAlias = tuple[str, str]
"""A principal's key, and its sealed session."""


class _Kept:
    """One stream, and whoever reads it to its end whether or not a client does."""

    def __init__(self, session: str, box: Mailbox, label: Callable[[], Label]) -> None:
        self.session = session
        self.box = box
        self.label = label
        self.pump: asyncio.Task[None] | None = None

    @property
    def goes_nowhere(self) -> bool:
        """Whether nothing happens here any more unless its client comes back."""
        return self.box.is_full or self.pump is None or self.pump.done()


class CallStreams:
    """Keeps the streams of sessions' calls. A reload leaves them be."""

    def __init__(self, *, new_nonce: Callable[[], str], linger_s: float = LINGER_S) -> None:
        """`new_nonce` begins the ids of one stream's events, so that none is another's."""
        self._new_nonce = new_nonce
        self._linger_s = linger_s
        self._kept: dict[str, dict[str, _Kept]] = {}
        """By principal and nonce."""
        self._pumps: set[asyncio.Task[None]] = set()
        self._octets = 0
        """Of all that is kept."""

    async def kept(
        self,
        key: Key,
        parts: AsyncGenerator[bytes, None],
        limits: WireLimits,
        *,
        label: Callable[[], Label],
    ) -> AsyncGenerator[bytes, None]:
        """Yield what `parts` say, each with an id to come back with. Whoever stops to read ends nothing.

        `label` says what they have carried so far, for the run of whoever comes back.
        """
        principal, session = key
        # Begun, they see to their own end, also where whoever reads them is ended at once.
        await anext(parts)
        nonce = self._new_nonce()
        one = _Kept(session, Mailbox(nonce, resumable=True, grown=self._grown), label)
        one.pump = asyncio.create_task(_pumped(principal, parts, one.box, limits))
        self._pumps.add(one.pump)
        one.pump.add_done_callback(self._pumps.discard)
        self._kept.setdefault(principal, {})[nonce] = one
        try:
            yield b""
            async with aclosing(one.box.events(None, primes=True)) as events:
                async for event in events:
                    yield event.raw
            if one.pump.done() and not one.pump.cancelled():
                one.pump.result()
        finally:
            self._left(principal, nonce)

    def asked_again(self, key: Key, after: str) -> AsyncGenerator[ServerEvent, None] | None:
        """Return the rest of the stream of which `after` is an event's id; `None` for none of ours."""
        principal, session = key
        nonce = after.rpartition("-")[0]
        one = self._kept.get(principal, {}).get(nonce)
        if one is None or one.session != session:
            return None
        return self._rest(principal, nonce, one, after)

    def is_ours(self, after: str) -> bool:
        """Whether a stream that is kept, whosever it is, has an event with the id `after`."""
        nonce = after.rpartition("-")[0]
        return any(nonce in streams for streams in self._kept.values())

    def end(self, key: Key) -> None:
        """Keep nothing more for a session, which has ended."""
        principal, session = key
        for nonce, one in tuple(self._kept.get(principal, {}).items()):
            if one.session == session:
                self._forget(principal, nonce)

    async def aclose(self) -> None:
        """End every stream."""
        for principal, streams in tuple(self._kept.items()):
            for nonce in tuple(streams):
                self._forget(principal, nonce)
        pumps = tuple(self._pumps)
        for pump in pumps:
            pump.cancel()
        await asyncio.gather(*pumps, return_exceptions=True)

    async def _rest(
        self, principal: str, nonce: str, one: _Kept, after: str
    ) -> AsyncGenerator[ServerEvent, None]:
        try:
            async with aclosing(one.box.events(after, primes=False)) as events:
                async for event in events:
                    yield (
                        event
                        if event.data is None
                        else replace(event, data=None, given=one.label())
                    )
        finally:
            self._left(principal, nonce)

    def _left(self, principal: str, nonce: str) -> None:
        """Take note that nobody reads a stream for now."""
        streams = self._kept.get(principal, {})
        if nonce not in streams:
            return
        left = [name for name, one in streams.items() if one.box.left_at is not None]
        for name in left[:-MOST_LEFT]:
            self._forget(principal, name)
        self._make_room()
        self._look_again(principal, nonce)

    def _look_again(self, principal: str, nonce: str) -> None:
        loop = asyncio.get_running_loop()
        loop.call_later(self._linger_s, self._forget_if_left, principal, nonce)

    def _forget_if_left(self, principal: str, nonce: str) -> None:
        one = self._kept.get(principal, {}).get(nonce)
        if one is None or one.box.left_at is None:
            return
        gone_s = asyncio.get_running_loop().time() - one.box.left_at
        if one.goes_nowhere and gone_s >= self._linger_s:
            self._forget(principal, nonce)
        else:
            self._look_again(principal, nonce)

    def _make_room(self) -> None:
        if self._octets <= _OCTETS:
            return
        for streams in self._kept.values():
            for one in streams.values():
                if one.box.left_at is None:
                    one.box.shed()  # it has been sent to whoever reads
        for _, principal, nonce in sorted(self._everything_left()):
            if self._octets <= _OCTETS:
                return
            self._forget(principal, nonce)

    def _grown(self, octets: int) -> None:
        self._octets += octets
        if octets > 0:
            self._make_room()

    def _everything_left(self) -> Iterator[tuple[float, str, str]]:
        for principal, streams in self._kept.items():
            for nonce, one in streams.items():
                if one.box.left_at is not None:
                    yield one.box.left_at, principal, nonce

    def _forget(self, principal: str, nonce: str) -> None:
        streams = self._kept[principal]
        one = streams.pop(nonce)
        if not streams:
            del self._kept[principal]
        self._octets -= one.box.octets
        one.box.grown = _nobody_counts
        one.box.close()
        if one.pump is not None:
            one.pump.cancel()


def _nobody_counts(_: int) -> None:
    """For a stream that is not kept any more."""


async def _pumped(
    who: str, parts: AsyncGenerator[bytes, None], box: Mailbox, limits: WireLimits
) -> None:
    """Read a stream to its end, no further ahead of its client than there is room for."""
    try:
        async with aclosing(parts):
            async for part in parts:
                events = events_of(part, limits)
                for event in await finished(who, weight(part), list[ServerEvent], events):
                    if event.data is not None:
                        await box.room_for(len(event.data))
                        box.put(event.data)
                        if len(event.data) > LARGE:
                            await box.taken()  # until then its room is held where it came from
                    elif not event.raw.startswith(b":"):
                        box.cut()  # its server wants to be asked again, and so do we
    finally:
        box.close()
