"""A decision point that does not answer is left alone, and tried again by one question at a time."""

import asyncio
from collections.abc import AsyncIterator, Mapping
from typing import Any

import pytest

from gateway.errors import PolicyUnavailable
from gateway.policy.authzen import AuthzenPoint
from gateway.policy.circuit import Circuit
from gateway.policy.settings import DecisionPoint
from tests.policy.policy_questions import question
from tests.policy.test_policy_authzen import There, there
from tests.servers.process import nobodys_port
from tests.servers.raw import answers

__all__ = ["there"]

_OFTEN = 5


class Hands:
    now = 0.0

    def __call__(self) -> float:
        return self.now


@pytest.fixture
def clock() -> Hands:
    return Hands()


@pytest.fixture
async def point(there: There, clock: Hands) -> AsyncIterator[AuthzenPoint]:
    found = AuthzenPoint(DecisionPoint(url=there.origin, deadline=20.0), clock)
    yield found
    await found.close()


def of(subject: str) -> Mapping[str, Any]:
    asked = question()
    return {**asked, "principal": {**asked["principal"], "sub": subject}}


async def refused(point: AuthzenPoint, asked: Mapping[str, Any] | None = None) -> PolicyUnavailable:
    with pytest.raises(PolicyUnavailable) as caught:
        await point.opinion(asked or question())
    return caught.value


async def test_one_that_fails_too_often_is_not_asked_and_is_found_again(
    there: There, point: AuthzenPoint, clock: Hands
) -> None:
    there.says = answers("no", status=500)
    for _ in range(_OFTEN):
        await refused(point)
    seen = len(there.upstream.seen)
    there.says = answers('{"decision": true}')
    error = await refused(point)
    assert "is left alone" in error.public
    assert "5 times in a row, the last time: status 500" in error.detail
    assert len(there.upstream.seen) == seen
    clock.now += 1.0
    assert (await point.opinion(question())).allowed
    assert (await point.opinion(question())).allowed


async def test_one_question_at_a_time_finds_out_whether_it_is_well(
    there: There, point: AuthzenPoint, clock: Hands
) -> None:
    there.says = answers("no", status=500)
    for _ in range(_OFTEN):
        await refused(point)
    came, free = asyncio.Event(), asyncio.Event()

    async def waits(request: Any) -> Any:
        came.set()
        async with asyncio.timeout(60):
            await free.wait()
        return await answers('{"decision": true}')(request)

    there.says = waits
    clock.now += 1.0
    first = asyncio.ensure_future(point.opinion(question()))
    async with asyncio.timeout(60):
        await came.wait()
    assert "is left alone" in (await refused(point)).public
    free.set()
    assert (await first).allowed


async def test_each_trial_in_vain_makes_the_pause_longer(
    there: There, point: AuthzenPoint, clock: Hands
) -> None:
    there.says = answers("no", status=500)
    for _ in range(_OFTEN):
        await refused(point)
    for pause in (1.0, 2.0, 4.0):
        clock.now += pause - 0.01
        seen = len(there.upstream.seen)
        await refused(point)
        assert len(there.upstream.seen) == seen
        clock.now += 0.01
        await refused(point)
        assert len(there.upstream.seen) > seen


async def test_whoever_makes_it_fail_is_kept_off_alone(
    there: There, point: AuthzenPoint, clock: Hands
) -> None:
    there.says = answers("no", status=500)
    for _ in range(_OFTEN):
        await refused(point, of("mallory"))
    assert "is left alone" in (await refused(point, of("mallory"))).public
    there.says = answers('{"decision": true}')
    assert (await point.opinion(of("alice"))).allowed
    # That it answers one says nothing of what the other asks: they wait for their own trial.
    assert "is left alone" in (await refused(point, of("mallory"))).public
    clock.now += 1.0
    assert (await point.opinion(of("mallory"))).allowed


async def test_good_answers_to_others_make_nobodys_failures_fewer(
    there: There, point: AuthzenPoint
) -> None:
    for _ in range(_OFTEN):
        there.says = answers("no", status=500)
        await refused(point, of("mallory"))
        there.says = answers('{"decision": true}')
        assert (await point.opinion(of("alice"))).allowed
    assert "is left alone" in (await refused(point, of("mallory"))).public


def test_who_is_answered_leaves_the_trial_of_another_alone(clock: Hands) -> None:
    circuit = Circuit(clock)
    for _ in range(_OFTEN):
        circuit.admit("mallory").failed("late", everybody=False)
    clock.now += 1.0
    circuit.admit("mallory")
    circuit.admit("alice").succeeded()
    with pytest.raises(PolicyUnavailable):
        circuit.admit("mallory")


async def test_whoever_has_it_think_for_long_takes_no_connection_from_others(
    there: There, point: AuthzenPoint
) -> None:
    came, free = asyncio.Semaphore(0), asyncio.Event()
    yes = answers('{"decision": true}')

    async def thinks(request: Any) -> Any:
        if b"mallory" in await request.read():
            came.release()
            async with asyncio.timeout(60):
                await free.wait()
        return await yes(request)

    there.says = yes
    await point.opinion(of("alice"))
    there.says = thinks
    many = [asyncio.ensure_future(point.opinion(of("mallory"))) for _ in range(64)]
    async with asyncio.timeout(60):
        for _ in range(8):
            await came.acquire()
    assert (await point.opinion(of("alice"))).allowed
    free.set()
    assert all(one.allowed for one in await asyncio.gather(*many))
    assert not point._places


async def test_where_nobody_is_there_nobody_waits(clock: Hands) -> None:
    url = f"http://127.0.0.1:{nobodys_port()}"
    gone = AuthzenPoint(DecisionPoint(url=url, deadline=20.0), clock)
    try:
        for number in range(_OFTEN):
            await refused(gone, of(f"somebody-{number}"))
        assert "is left alone" in (await refused(gone, of("alice"))).public
    finally:
        await gone.close()


async def test_a_question_that_nobody_waits_for_leaves_the_trial_to_another(
    there: There, point: AuthzenPoint, clock: Hands
) -> None:
    there.says = answers("no", status=500)
    for _ in range(_OFTEN):
        await refused(point)
    came = asyncio.Event()

    async def hangs(request: Any) -> Any:
        came.set()
        await asyncio.Event().wait()

    there.says = hangs
    clock.now += 1.0
    left = asyncio.ensure_future(point.opinion(question()))
    async with asyncio.timeout(60):
        await came.wait()
    left.cancel()
    await asyncio.wait([left])
    there.says = answers('{"decision": true}')
    assert (await point.opinion(question())).allowed


def test_failures_that_were_under_way_together_make_one_pause(clock: Hands) -> None:
    circuit = Circuit(clock)
    attempts = [circuit.admit("alice") for _ in range(3 * _OFTEN)]
    for attempt in attempts:
        attempt.failed("away", everybody=True)
    clock.now += 1.0
    circuit.admit("alice")
