"""A stop is a file: it outlives the process, and whatever cannot be read is one."""

import asyncio
import threading
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from gateway.errors import BadCommand, Denied, Stopped
from gateway.ports.stop import Standstill
from gateway.storage import stop as stop_file
from gateway.storage.files import remove, write_atomically
from gateway.storage.stop import STOP, Stop

HELD = Standstill(by="user:sam", at=1_800_000_000.5, note="a token is public")


async def test_a_stop_outlives_the_process_until_it_is_lifted(tmp_path: Path) -> None:
    stop = Stop(tmp_path)
    stop.require_none()
    await stop.put(HELD)
    for one in (stop, Stop(tmp_path)):
        assert one.holds == HELD
        with pytest.raises(Stopped):
            one.require_none()
    assert (tmp_path / STOP).stat().st_mode & 0o777 == 0o600
    await stop.lift(HELD)
    for one in (stop, Stop(tmp_path)):
        assert one.holds is None
        one.require_none()


@pytest.mark.parametrize("content", [b"", b"{", b"[]", b'{"by": "x"}', b"null", b"\xff"])
def test_a_file_that_cannot_be_read_stops_everything(tmp_path: Path, content: bytes) -> None:
    (tmp_path / STOP).write_bytes(content)
    with pytest.raises(Stopped):
        Stop(tmp_path).require_none()


async def test_what_is_no_file_stops_everything_and_is_not_lifted(tmp_path: Path) -> None:
    (tmp_path / STOP).mkdir()
    stop = Stop(tmp_path)
    assert stop.holds is not None
    with pytest.raises(BadCommand, match="stay refused"):
        await stop.lift(stop.holds)
    with pytest.raises(Stopped):
        stop.require_none()


async def test_a_stop_that_cannot_be_written_holds_all_the_same(tmp_path: Path) -> None:
    stop = Stop(tmp_path / "nowhere")
    with pytest.raises(BadCommand, match="only until the gateway ends"):
        await stop.put(HELD)
    with pytest.raises(Stopped):
        stop.require_none()


class Slow:
    """Does what it stands for once it is let go."""

    def __init__(self, work: Callable[..., Any]) -> None:
        self._work = work
        self.begun, self.going, self.done = (threading.Event() for _ in range(3))

    def __call__(self, *args: Any) -> None:
        self.begun.set()
        assert self.going.wait(60)
        self._work(*args)
        self.done.set()


LATER = replace(HELD, note="another one")


async def lifting(stop: Stop, monkeypatch: pytest.MonkeyPatch) -> tuple[Slow, asyncio.Task[None]]:
    """Begin to lift a stop, and wait until its file is being removed."""
    await stop.put(HELD)
    slow = Slow(remove)
    monkeypatch.setattr(stop_file, "remove", slow)
    task = asyncio.create_task(stop.lift(HELD))
    await asyncio.to_thread(slow.begun.wait, 60)
    return slow, task


async def test_a_stop_outlives_a_lift_that_nobody_waits_for_any_more(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    stop = Stop(tmp_path)
    slow, lift = await lifting(stop, monkeypatch)
    lift.cancel()
    await asyncio.wait([lift])
    put = asyncio.create_task(stop.put(LATER))
    await asyncio.wait([put], timeout=0.05)
    slow.going.set()
    await put
    assert await asyncio.to_thread(slow.done.wait, 60)
    assert stop.holds == LATER
    assert Stop(tmp_path).holds == LATER


async def test_what_is_stopped_again_while_it_is_lifted_is_refused_throughout(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    stop = Stop(tmp_path)
    slow, lift = await lifting(stop, monkeypatch)
    put = asyncio.create_task(stop.put(LATER))
    await asyncio.sleep(0)
    assert stop.holds == LATER
    slow.going.set()
    await lift
    assert stop.holds == LATER
    await put
    assert Stop(tmp_path).holds == LATER


async def test_a_lift_that_comes_to_its_turn_after_a_later_stop_removes_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    stop = Stop(tmp_path)
    await stop.put(HELD)
    slow = Slow(write_atomically)
    with monkeypatch.context() as patched:
        patched.setattr(stop_file, "write_atomically", slow)
        first = asyncio.create_task(stop.put(HELD))
        await asyncio.to_thread(slow.begun.wait, 60)
    removed = list[Path]()
    monkeypatch.setattr(stop_file, "remove", removed.append)
    lift = asyncio.create_task(stop.lift(HELD))
    await asyncio.sleep(0)
    later = asyncio.create_task(stop.put(LATER))
    await asyncio.sleep(0)
    slow.going.set()
    await asyncio.gather(first, later)
    with pytest.raises(Denied, match="stopped again since you looked"):
        await lift
    assert removed == []
    assert stop.holds == Stop(tmp_path).holds == LATER


async def test_nobody_lifts_a_stop_that_they_have_not_seen(tmp_path: Path) -> None:
    """Not one that says the same, either."""
    stop = Stop(tmp_path)
    await stop.put(HELD)
    for later in (LATER, replace(HELD)):
        await stop.put(later)
        with pytest.raises(Denied, match="stopped again since you looked"):
            await stop.lift(HELD)
        assert stop.holds == Stop(tmp_path).holds == later


def test_of_each_stop_the_name_is_another_one() -> None:
    others = (replace(HELD, by="user:bob"), replace(HELD, at=HELD.at + 1e-6), LATER)
    assert len({one.name for one in (HELD, *others)}) == 4
    assert replace(HELD).name == HELD.name


async def test_a_stop_keeps_its_name_over_a_restart(tmp_path: Path) -> None:
    await Stop(tmp_path).put(HELD)
    found = Stop(tmp_path).holds
    assert found is not None
    assert found.name == HELD.name


async def test_a_lift_is_done_to_its_end_though_nobody_waits_for_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Else its file would be gone while it holds, and it would not outlive the process."""
    stop = Stop(tmp_path)
    slow, lift = await lifting(stop, monkeypatch)
    lift.cancel()
    await asyncio.wait([lift])
    slow.going.set()
    await stop.lift(HELD)
    assert stop.holds is Stop(tmp_path).holds is None
