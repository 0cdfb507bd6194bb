"""A clock that jumps lets nobody in longer, refills nothing, and does not reorder the log."""

from pathlib import Path

import pytest

from gateway.pipeline.limits import CallLimits
from gateway.storage.store import Store
from gateway.storage.verify import own_verifier, verify
from tests.faults.scene import scene
from tests.moved_clock import MovedClock
from tests.pipeline.house import House

HOUR = 3600.0


async def test_a_clock_that_jumps_back_refills_no_bucket_and_one_ahead_fills_it_once() -> None:
    house = House()
    house.limits = CallLimits(calls_per_minute=2, clock=house.clock)
    house.pipeline = house._wired()
    await house.approve_all()

    async def codes(count: int) -> list[str | None]:
        return [(await house.handle(house.call())).code for _ in range(count)]

    assert await codes(3) == [None, None, "rate_limited"]
    house.now -= HOUR
    assert await codes(2) == ["rate_limited", "rate_limited"]
    house.now += 24 * HOUR
    assert await codes(4) == [None, None, "rate_limited", "rate_limited"]


async def test_the_log_is_ordered_by_its_index_whatever_the_clock_says(tmp_path: Path) -> None:
    house = House()
    store = await Store.open(tmp_path / "var", clock=house.clock)
    house.audit = store.audit  # type: ignore[assignment]
    house.pipeline = house._wired()
    await house.approve_all()
    reader = store.log.reader()
    begun = reader.newest()
    for jump in (-HOUR, HOUR * 48, -HOUR * 24):
        house.now += jump
        assert (await house.handle(house.call())).code is None
    await store.caught_up()
    records = reader.after(begun)
    reader.close()
    await store.close()
    assert [one["kind"] for one in records] == ["intent", "outcome"] * 3
    assert [one["leaf_index"] for one in records] == [begun + 1 + n for n in range(6)]
    times = [one["time"] for one in records]
    assert times != sorted(times)
    assert verify(tmp_path / "var", own_verifier(tmp_path / "var")).reason == ""


@pytest.mark.full
def test_the_clock_of_the_process_jumps(tmp_path: Path) -> None:
    clock = MovedClock(tmp_path)
    with scene(tmp_path / "gateway", environment=clock.environment) as at:
        first = at.call()
        clock.set(2 * HOUR)
        assert at.call().answered.status == 401  # the token is over
        at.poster.token = at.running.token("raw")
        later = at.call()
        clock.set(-24 * HOUR)
        assert at.call().answered.status == 401  # a token from the future is none
        at.poster.token = at.running.token("raw")
        earlier = at.call()
        made = (first, later, earlier)
        assert [one.code for one in made] == [None, None, None]
        assert at.readiness == (200, {})

        records = [at.records(one) for one in made]
        indices = [one["leaf_index"] for trail in records for one in trail]
        assert indices == sorted(indices)
        times = [trail[0]["time"] for trail in records]
        assert times[2] < times[0] < times[1]
        assert at.verified() == ""
