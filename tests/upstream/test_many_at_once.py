"""What a server says in very many small pieces: whoever reads them holds up nobody else."""

import asyncio
from collections.abc import AsyncIterator
from typing import Any, cast

import pytest

from gateway.domain.calls import ServerEvent
from gateway.http1 import Response
from gateway.pipeline.streams import _drain
from gateway.upstream.inbox import Heard, Inbox, Messages
from gateway.upstream.settings import Limits, Timeouts
from gateway.upstream.stream import EventStream

MANY = 4096
FEW = 60


class Here:
    """An answer that has all come."""

    def __init__(self, octets: bytes) -> None:
        self._octets = octets
        self.closed = False

    async def piece(self) -> bytes:
        taken, self._octets = self._octets, b""
        return taken

    def close(self) -> None:
        self.closed = True


def streamed(octets: bytes) -> EventStream:
    return EventStream(
        cast("Response", Here(octets)),
        timeouts=Timeouts(),
        limits=Limits(),
        server="crm",
        abandoned=lambda: None,
    )


def local(*lines: bytes) -> Messages:
    return Messages(
        Inbox(1_000_000, [Heard(line=line, final=not line) for line in (*lines, b"")]),
        timeouts=Timeouts(),
        limits=Limits(),
        server="notes",
        left=lambda _: None,
    )


async def turns_of_others(events: AsyncIterator[ServerEvent]) -> int:
    """Read all of `events`, and count the turns that others have meanwhile."""
    turns = 0

    async def other() -> None:
        nonlocal turns
        while True:
            await asyncio.sleep(0)
            turns += 1

    task = asyncio.create_task(other())
    await asyncio.sleep(0)
    before = turns
    async for _ in events:
        pass
    task.cancel()
    return turns - before


SAYING: dict[str, Any] = {
    "blank lines": lambda: streamed(b"\n" * MANY),
    "comments": lambda: streamed(b":\n\n" * MANY),
    "events of some length": lambda: streamed((b"data: " + b"x" * 4096 + b"\n\n") * (MANY // 16)),
    "lines of a local server": lambda: local(*[b"{}"] * MANY),
}


@pytest.mark.parametrize("said", SAYING)
async def test_others_have_their_turn_between_many_events_that_are_here(said: str) -> None:
    assert await turns_of_others(SAYING[said]()) >= MANY // 64 - 1


@pytest.mark.parametrize(
    "events", [lambda: streamed(b"data: 1\n\n" * FEW), lambda: local(*[b"1"] * FEW)]
)
async def test_a_few_events_are_read_in_one_turn(events: Any) -> None:
    assert await turns_of_others(events()) == 0


async def test_what_comes_after_an_answer_is_not_read_for_longer_than_it_may(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("gateway.pipeline.streams._FAREWELL_S", 0.0)
    events = streamed(b"\n" * MANY + b"data: last\n\n")
    await _drain(events)
    assert cast("Here", events._response).closed
    assert len([event async for event in events]) > MANY // 2  # which nobody has read
