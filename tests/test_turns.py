"""Large work leaves the loop, one place a principal, and is bounded."""

import asyncio
import gc
import threading
import weakref
from contextlib import suppress
from functools import partial

import pytest

from gateway.errors import RateLimited
from gateway.turns import (
    QUICK_NODES,
    STEP,
    Line,
    Turns,
    awaited_whole,
    in_steps,
    in_thread,
    in_turn,
)


async def test_quick_work_stays_and_large_work_leaves_the_loop():
    here = threading.get_ident()
    assert await in_turn("alice", QUICK_NODES, threading.get_ident) == here
    assert await in_turn("alice", QUICK_NODES + 1, threading.get_ident) != here


async def test_nobody_has_more_than_one_place():
    turns, going = Turns(places=2), threading.Event()
    held = [asyncio.create_task(turns.take("mallory", going.wait, 60)) for _ in range(5)]
    await asyncio.sleep(0)
    try:
        assert await asyncio.wait_for(turns.take("alice", lambda: "done"), 60) == "done"
    finally:
        going.set()
    assert all(await asyncio.gather(*held))


async def test_who_does_not_wait_for_their_work_keeps_their_place_until_it_is_done():
    turns, going = Turns(places=2), threading.Event()
    for _ in range(3):
        task = asyncio.create_task(turns.take("mallory", going.wait, 60))
        await asyncio.sleep(0.01)
        task.cancel()
        await asyncio.wait([task])
    try:
        assert await asyncio.wait_for(turns.take("alice", lambda: "done"), 60) == "done"
    finally:
        going.set()


def test_what_a_loop_that_ended_has_left_keeps_nobody_waiting():
    turns, going = Turns(places=2), threading.Event()

    async def leave():
        task = asyncio.create_task(turns.take("mallory", going.wait, 60))
        await asyncio.sleep(0.01)
        task.cancel()

    async def come():
        return await asyncio.wait_for(turns.take("mallory", lambda: "done"), 60)

    asyncio.run(leave())
    try:
        assert asyncio.run(come()) == "done"
    finally:
        going.set()


async def test_what_waits_of_one_principal_is_bounded():
    turns, going = Turns(places=1, most_waiting=2), threading.Event()
    held = [asyncio.create_task(turns.take("mallory", going.wait, 60)) for _ in range(2)]
    await asyncio.sleep(0)
    with pytest.raises(RateLimited):
        await turns.take("mallory", going.wait, 60)
    going.set()
    await asyncio.gather(*held)
    assert await turns.take("mallory", lambda: "again") == "again"


@pytest.mark.parametrize("turn", [asyncio.Lock, asyncio.Semaphore])
async def test_a_lock_is_held_to_the_threads_end_though_nobody_waits_for_that(turn):
    begun, going, order = threading.Event(), threading.Event(), list[str]()
    one = turn()

    def slow() -> None:
        begun.set()
        going.wait(60)
        order.append("slow")

    first = asyncio.create_task(in_thread(one, slow))
    await asyncio.to_thread(begun.wait, 60)
    first.cancel()
    await asyncio.wait([first])
    second = asyncio.create_task(in_thread(one, partial(order.append, "next")))
    try:
        assert await turns_until(second) == []
    finally:
        going.set()
    await second
    assert order == ["slow", "next"]


async def turns_until(task: asyncio.Task[None]) -> list[object]:
    """Let what could go on go on; return what `task` came to, if it did."""
    await asyncio.wait([task], timeout=0.05)
    return [task.result()] if task.done() else []


async def test_whoever_waits_for_a_lock_in_vain_lets_it_go():
    one = asyncio.Lock()
    async with one:
        waiting = asyncio.create_task(in_thread(one, lambda: None))
        await asyncio.sleep(0)
        waiting.cancel()
        await asyncio.wait([waiting])
    assert await in_thread(one, lambda: "done") == "done"


async def test_a_line_begins_nothing_before_what_it_began_is_done_though_nobody_waits_for_that():
    line, going, begun = Line(), threading.Event(), []

    async def work(number: int) -> bool:
        begun.append(number)
        return await asyncio.to_thread(going.wait, 60)

    for number in range(3):
        task = asyncio.create_task(line.take(partial(work, number)))
        await asyncio.sleep(0)
        await asyncio.sleep(0)
        task.cancel()
        await asyncio.wait([task])
    assert begun == [0]
    going.set()
    assert await line.take(lambda: work(3))
    assert begun == [0, 1, 2, 3]


async def test_a_line_refuses_who_comes_when_it_is_long():
    line, going = Line(most_waiting=1), asyncio.Event()
    held = [asyncio.create_task(line.take(going.wait)) for _ in range(2)]
    await asyncio.sleep(0)
    with pytest.raises(RateLimited):
        await line.take(going.wait)
    going.set()
    assert all(await asyncio.gather(*held))
    assert await line.take(going.wait)


async def test_others_have_their_turn_between_the_steps_of_a_list():
    order: list[object] = []

    async def other() -> None:
        order.append("other")

    beside = asyncio.create_task(other())
    async for some in in_steps(range(2 * STEP + 1)):
        order.append(len(some))  # noqa: PERF401 - in the order in which both happen
    await beside
    assert order == [STEP, "other", STEP, 1]


async def test_what_must_be_done_is_never_refused():
    turns, going = Turns(places=1, most_waiting=1), threading.Event()
    held = [asyncio.create_task(turns.finish("mallory", going.wait, 60)) for _ in range(3)]
    await asyncio.sleep(0)
    going.set()
    assert all(await asyncio.gather(*held))


class Large:
    """Something that work is given."""


@pytest.mark.parametrize("kind", [Turns, Line])
async def test_what_was_refused_is_freed_at_once(kind):
    def refuse(_: object = None) -> None:
        raise ValueError

    large = Large()
    left = weakref.ref(large)
    gc.disable()
    try:
        with suppress(ValueError):
            if kind is Turns:
                await Turns().take("a", refuse, large)
            else:
                await Line().take(partial(asyncio.to_thread, refuse, large))
        del large
        async with asyncio.timeout(60):
            while left() is not None:
                await asyncio.sleep(0)
    finally:
        gc.enable()


async def test_who_is_cancelled_goes_once_their_thread_has_ended():
    going, begun = threading.Event(), threading.Event()

    def work() -> None:
        begun.set()
        going.wait(60)

    task = asyncio.create_task(awaited_whole(work))
    await asyncio.to_thread(begun.wait, 60)
    task.cancel()
    done, _ = await asyncio.wait([task], timeout=0.05)
    going.set()
    assert not done
    await asyncio.wait([task])
    assert task.cancelled()


async def test_what_the_thread_of_who_is_cancelled_raises_is_nobodys_surprise():
    going, begun, told = threading.Event(), threading.Event(), list[str]()
    asyncio.get_running_loop().set_exception_handler(lambda _, of: told.append(of["message"]))

    def work() -> None:
        begun.set()
        going.wait(60)
        raise KeyError

    task = asyncio.create_task(awaited_whole(work))
    await asyncio.to_thread(begun.wait, 60)
    task.cancel()
    going.set()
    await asyncio.wait([task])
    assert task.cancelled()
    del task
    gc.collect()
    assert told == []


async def test_whose_thread_ends_gets_what_it_returns():
    assert await awaited_whole(lambda: 7) == 7
    with pytest.raises(KeyError):
        await awaited_whole(partial(dict[str, int]().__getitem__, "a"))
