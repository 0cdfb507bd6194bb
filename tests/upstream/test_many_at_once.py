"""What a server says in very many small pieces: whoever reads them holds up nobody else."""

import asyncio
from asyncio.subprocess import Process
from collections.abc import AsyncIterator
from types import SimpleNamespace
from typing import Any, cast

import pytest

from gateway.http1 import Response
from gateway.pipeline.streams import _drain
from gateway.upstream import channel as channels
from gateway.upstream.channel import Channel
from gateway.upstream.child import Child, Patience
from gateway.upstream.inbox import Backlog, Heard, Inbox, Messages
from gateway.upstream.launch import Launch
from gateway.upstream.settings import Limits, LocalSettings, Timeouts
from gateway.upstream.stream import EventStream
from gateway.wire.server_message import ServerMessage, read_server_message

MANY = 4096
FEW = 60
NOTICE = b'{"jsonrpc":"2.0","method":"notifications/tools/list_changed"}'


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
        Inbox(Backlog(1_000_000), [Heard(line=line, final=not line) for line in (*lines, b"")]),
        timeouts=Timeouts(),
        limits=Limits(),
        server="notes",
        left=lambda _: None,
    )


def written(octets: bytes) -> AsyncIterator[bytes]:
    """Return the lines of a process that has written `octets`."""
    stdout = asyncio.StreamReader()
    stdout.feed_data(octets)
    stdout.feed_eof()
    process = SimpleNamespace(stdout=stdout, stderr=None)
    launch = cast("Launch", None)
    child = Child("notes", launch, cast("Process", process), line_bytes=1000, patience=Patience())
    return child.lines()


class Wordy:
    """A process that writes `lines`, and what became of it."""

    name = "notes"

    def __init__(self, *lines: bytes) -> None:
        self._lines = lines
        self.ended = False

    async def lines(self) -> AsyncIterator[bytes]:
        for line in self._lines:
            yield line
        await asyncio.Event().wait()

    async def end(self) -> None:
        self.ended = True


async def heard(child: Wordy) -> Channel:
    """Return a channel that has read all that `child` writes."""
    settings = cast("LocalSettings", SimpleNamespace(timeouts=Timeouts(), limits=Limits()))
    channel = Channel(cast("Child", child), settings, stateless=False, owner="a", person="a")
    await asyncio.sleep(0)
    await asyncio.sleep(0)
    return channel


async def turns_of_others(events: AsyncIterator[Any]) -> int:
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
    "blank lines of a process": lambda: written(b"\n" * MANY),
    "lines of a process": lambda: written(b"{}\n" * MANY),
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


async def test_empty_lines_of_a_local_server_are_not_read(monkeypatch: pytest.MonkeyPatch) -> None:
    read: list[bytes] = []

    async def noting(_who: str, line: bytes, _limits: Any) -> ServerMessage:
        read.append(line)
        return read_server_message(line, Limits().wire)

    monkeypatch.setattr(channels, "read_in_turn", noting)
    channel = await heard(Wordy(*[b""] * 500, NOTICE, b""))
    assert read == [NOTICE]
    channel._reading.cancel()


@pytest.mark.parametrize("line", [b"", b"starting ...", b"{"])
async def test_a_local_server_that_writes_no_messages_is_ended(
    line: bytes, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(channels, "_NOISE", 10)
    wordy = Wordy(*[line] * 11)
    await heard(wordy)
    assert wordy.ended
    patient = Wordy(*[*[line] * 10, NOTICE] * 3)
    channel = await heard(patient)
    assert not patient.ended
    channel._reading.cancel()
