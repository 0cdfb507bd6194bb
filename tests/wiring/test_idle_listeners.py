"""A listener that nobody asks for anything wakes for nothing, and ends when it is told to."""

import asyncio

import pytest

from gateway.web.bounds import Bounds
from gateway.web.connections import Listener
from gateway.wiring import serving


async def test_a_listener_waits_to_be_told_to_end_and_looks_at_no_clock(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    listener = Listener(Bounds(connections=1))
    server = serving._Server(serving._settings(None, listener, None))
    loop, timers = asyncio.get_running_loop(), list[float]()
    monkeypatch.setattr(loop, "call_later", lambda after_s, *_, **__: timers.append(after_s))
    serves = asyncio.create_task(server.main_loop())
    for _ in range(5):
        await asyncio.sleep(0)
    assert (serves.done(), timers) == (False, [])
    monkeypatch.undo()
    server.end()
    async with asyncio.timeout(60):
        await serves
    assert server.should_exit
