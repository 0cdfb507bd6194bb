"""Streams of calls at `/mcp`: what a client has lost of one waits for it to come back.

MCP 2025-11-25, transports, resumability. A call goes on when its client's connection breaks. What a
stream says has been judged, labelled and recorded when it comes here.
"""

import asyncio
from collections import Counter
from collections.abc import AsyncGenerator, Callable
from contextlib import aclosing
from dataclasses import replace
from functools import partial
from typing import Final, TypeAlias

from gateway.builtin.mailbox import LARGE, Mailbox
from gateway.domain.calls import ServerEvent, whatever_is_stopped
from gateway.domain.flow import Run
from gateway.domain.nodes import weight
from gateway.domain.room import outlasting
from gateway.errors import Stopped
from gateway.turns import finished
from gateway.wire.jsontext import WireLimits
from gateway.wire.sse import events_of

LINGER_S: Final = 60.0
"""How long a stream that is over is kept for whoever may come back for its end."""
MOST_LEFT: Final = 8
"""Streams of one person, with whatever clients, that nobody reads; of more the oldest ends as if nobody
could come back."""
_OCTETS: Final = 32 * 1024**2
"""Of all streams together, read or not. What is not sent yet has its room where answers have theirs."""
_OCTETS_OF_ONE: Final = _OCTETS // 8
"""Of one person's, with whatever clients; what is larger is kept alone."""

Key: TypeAlias = tuple[str, str]
"""A principal's key, and its sealed session."""


class _Kept:
    """One stream, and whoever reads it to its end whether or not a client does."""

    def __init__(
        self, key: Key, person: str, box: Mailbox, label: Callable[[], Run], of: object
    ) -> None:
        self.key = key
        self.person = person
        self.box = box
        self.label = label
        self.of = of
        """What its call is carried by."""
        self.pump: asyncio.Task[None] | None = None
        self.look: asyncio.TimerHandle | None = None
        """When it is looked at whether somebody has come back: one at a time, however often they do."""

    @property
    def goes_nowhere(self) -> bool:
        """Whether nothing happens here any more unless its client comes back."""
        return self.box.is_full or self.pump is None or self.pump.done()


class CallStreams:
    """Keeps the streams of sessions' calls.

    A reload leaves be what they have said; calls that go on too long after it are cut off, as `cut` has it.
    """

    def __init__(self, *, new_nonce: Callable[[], str], linger_s: float = LINGER_S) -> None:
        """`new_nonce` begins the ids of one stream's events, so that none is another's."""
        self._new_nonce = new_nonce
        self._linger_s = linger_s
        self._kept: dict[str, _Kept] = {}
        """By nonce."""
        self._of: dict[str, dict[str, _Kept]] = {}
        """The same by their person."""
        self._pumps: set[asyncio.Task[None]] = set()
        self._octets: Counter[str] = Counter()
        """Bytes that are kept, by person."""
        self._all = 0

    async def kept(
        self,
        key: Key,
        parts: AsyncGenerator[bytes, None],
        limits: WireLimits,
        *,
        label: Callable[[], Run],
        person: str,
        of: object,
        require_going: Callable[[], None] = whatever_is_stopped,
    ) -> AsyncGenerator[bytes, None]:
        """Yield what `parts` say, each with an id to come back with. Whoever stops to read ends nothing.

        `label` says what they have carried so far, for the run of whoever comes back, and `person` for
        whom it all is. `of` is what carries the call, which ends with that: see `cut`. Where
        `require_going` raises, the stream ends, and keeps what was not given out.
        """
        # Begun, they see to their own end, also where whoever reads them is ended at once.
        await anext(parts)
        nonce = self._new_nonce()
        box = Mailbox(nonce, resumable=True, grown=partial(self._grown, person))
        one = _Kept(key, person, box, label, of)
        one.pump = asyncio.create_task(_pumped(person, parts, box, limits))
        self._pumps.add(one.pump)
        one.pump.add_done_callback(self._pumps.discard)
        outlasting(one.pump)
        self._kept[nonce] = self._of.setdefault(person, {})[nonce] = one
        try:
            yield b""
            async with aclosing(box.events(None, primes=True)) as events:
                async for event in events:
                    require_going()
                    yield event.raw
            if one.pump.done() and not one.pump.cancelled():
                one.pump.result()
        except Stopped:
            return  # whoever comes back for the rest is told
        finally:
            self._left(nonce)

    def asked_again(self, key: Key, after: str) -> AsyncGenerator[ServerEvent, None] | None:
        """Return the rest of the stream of which `after` is an event's id; `None` for none of ours."""
        nonce = after.rpartition("-")[0]
        one = self._kept.get(nonce)
        if one is None or one.key != key:
            return None
        return self._rest(nonce, one, after)

    def is_ours(self, after: str) -> bool:
        """Whether a stream that is kept, whosever it is, has an event with the id `after`."""
        return after.rpartition("-")[0] in self._kept

    def end(self, key: Key) -> None:
        """Keep nothing more for a session, which has ended."""
        for nonce in [nonce for nonce, one in self._kept.items() if one.key == key]:
            self._forget(nonce)

    async def cut(self, of: object) -> None:
        """End every call that `of` carries; what it has said so far waits still for its client."""
        pumps = [one.pump for one in self._kept.values() if one.of is of and one.pump is not None]
        for pump in pumps:
            pump.cancel()
        await asyncio.gather(*pumps, return_exceptions=True)

    async def aclose(self) -> None:
        """End every stream."""
        for nonce in tuple(self._kept):
            self._forget(nonce)
        pumps = tuple(self._pumps)
        for pump in pumps:
            pump.cancel()
        await asyncio.gather(*pumps, return_exceptions=True)

    async def _rest(self, nonce: str, one: _Kept, after: str) -> AsyncGenerator[ServerEvent, None]:
        try:
            async with aclosing(one.box.events(after, primes=False)) as events:
                async for event in events:
                    yield (
                        event
                        if event.data is None
                        else replace(event, data=None, given=one.label())
                    )
        finally:
            self._left(nonce)

    def _left(self, nonce: str) -> None:
        """Take note that nobody reads a stream for now."""
        one = self._kept.get(nonce)
        if one is None:
            return
        own = self._of[one.person].items()
        left = [name for name, other in own if other.box.left_at is not None]
        for name in left[:-MOST_LEFT]:
            self._forget(name)
        self._make_room(one.person)
        self._look_again(nonce, one)

    def _look_again(self, nonce: str, one: _Kept) -> None:
        if one.look is not None:
            one.look.cancel()
        loop = asyncio.get_running_loop()
        one.look = loop.call_later(self._linger_s, self._forget_if_left, nonce, one)

    def _forget_if_left(self, nonce: str, one: _Kept) -> None:
        if one.box.left_at is None:
            return
        gone_s = asyncio.get_running_loop().time() - one.box.left_at
        if one.goes_nowhere and gone_s >= self._linger_s:
            self._forget(nonce)
        else:
            self._look_again(nonce, one)

    def _make_room(self, person: str) -> None:
        """Have `person` keep no more than one may, and those who keep most what all may."""
        self._shrink(person, _OCTETS_OF_ONE, spared=1)
        if self._all > _OCTETS:
            for most, octets in self._octets.most_common():
                self._shrink(most, octets - max(0, self._all - _OCTETS))

    def _shrink(self, person: str, most: int, *, spared: int = 0) -> None:
        """Have `person` keep no more than `most` bytes, `spared` streams besides, if that can be."""
        if self._octets[person] <= most:
            return
        own = self._of[person].items()
        for _, one in own:
            if one.box.left_at is None:
                one.box.shed()  # it has been sent to whoever reads
        left = sorted(
            (one.box.left_at, nonce)
            for nonce, one in own
            if one.box.left_at is not None and one.box.octets
        )
        for _, nonce in left[: len(left) - spared]:
            if self._octets[person] <= most:
                return
            self._drop(nonce)

    def _drop(self, nonce: str) -> None:
        """Keep nothing of a stream; its call goes on, and what it says from now on is kept again."""
        one = self._kept[nonce]
        if one.pump is None or one.pump.done():
            self._forget(nonce)
        else:
            one.box.empty()

    def _grown(self, person: str, octets: int) -> None:
        self._octets[person] += octets
        self._all += octets
        if octets > 0:
            self._make_room(person)

    def _forget(self, nonce: str) -> None:
        one = self._kept.pop(nonce)
        self._grown(one.person, -one.box.octets)
        del self._of[one.person][nonce]
        if not self._of[one.person]:
            del self._of[one.person], self._octets[one.person]
        one.box.grown = _nobody_counts
        one.box.close()
        if one.look is not None:
            one.look.cancel()
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
