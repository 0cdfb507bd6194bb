"""What many gateways use up together: never more than one would, and nothing twice."""

import asyncio
import json
import time
from collections.abc import Iterator
from contextlib import closing

import pytest

from gateway.domain.identity import Proof
from gateway.domain.quotas import Count, Per, Quota
from gateway.errors import AuditUnavailable, IdentityUnavailable, RateLimited
from gateway.oauth.seen_proofs import SeenProofs
from gateway.pipeline.leased import LeasedLimits
from gateway.pipeline.quotas import Quotas
from gateway.ports.allowance import Use
from gateway.signin.errors import Throttled
from gateway.signin.throttle import Attempts
from gateway.storage.postgres.allowance import PostgresAllowance
from gateway.storage.postgres.connection import Connection, connect
from gateway.storage.postgres.locks import Lock
from tests.pipeline.house import House
from tests.storage.postgres.shared import blocked
from tests.storage.suite import NOW

CRASH = "TRUNCATE portions, portions_began, seen_proofs, seen_proofs_began"
"""What a crash of the server or a failover does to tables that are in no write-ahead log."""

Two = tuple[PostgresAllowance, PostgresAllowance]


@pytest.fixture
def two(address: str) -> Iterator[Two]:
    with (
        closing(PostgresAllowance(address, replica="one")) as one,
        closing(PostgresAllowance(address, replica="other")) as other,
    ):
        yield one, other


async def given(limits: LeasedLimits, most: int, key: str = "emma") -> int:
    """Return how many of `most` calls may be made now."""
    count = 0
    for _ in range(most):
        try:
            await limits.take(key)
        except RateLimited:
            await asyncio.sleep(0)
        else:
            count += 1
    return count


async def test_all_gateways_together_give_out_what_one_would(two: Two) -> None:
    began = time.monotonic()
    limits = [LeasedLimits(each, calls_per_minute=60) for each in two for _ in range(2)]
    found = sum(await asyncio.gather(*(given(each, 60) for each in limits)))
    filled = time.monotonic() - began
    assert 60 - 4 * 3 <= found <= 60 + filled + 1


async def test_each_key_and_each_rate_has_a_bucket_of_its_own(two: Two) -> None:
    one, other = (LeasedLimits(each, calls_per_minute=2) for each in two)
    assert await given(one, 3) == 2
    with pytest.raises(RateLimited) as found:
        await other.take("emma")
    assert (found.value.limits[0].most, found.value.limits[0].left) == (2, 0)
    assert 1 <= found.value.limits[0].wait_s <= 30
    await other.take("bob")
    await other.take("emma", 1)


class Hand:
    now = 0.0

    def __call__(self) -> float:
        return self.now


async def test_what_is_left_of_a_portion_is_put_back(two: Two, owner: Connection) -> None:
    clock = Hand()
    one = LeasedLimits(two[0], calls_per_minute=100, clock=clock)
    await one.take("emma")
    ((level,),) = owner.execute("SELECT level FROM portions").fetchall()
    assert level == pytest.approx(95, abs=0.01)
    clock.now += 2
    owner.execute("UPDATE portions SET at = clock_timestamp() + interval '1 hour'")
    await one.take("emma")
    ((level,),) = owner.execute("SELECT level FROM portions").fetchall()
    assert level == pytest.approx(94, abs=0.01)


async def test_many_that_wait_for_a_portion_ask_once(two: Two, owner: Connection) -> None:
    one = LeasedLimits(two[0], calls_per_minute=100)
    await asyncio.gather(*(one.take("emma") for _ in range(5)))
    ((level,),) = owner.execute("SELECT level FROM portions").fetchall()
    assert level == pytest.approx(95, abs=0.5)


async def test_whoever_was_told_that_there_is_nothing_is_not_asked_again_at_once(
    two: Two, owner: Connection
) -> None:
    clock = Hand()
    one = LeasedLimits(two[0], calls_per_minute=1, clock=clock)
    assert await given(one, 2) == 1
    owner.execute("UPDATE portions SET level = 1")
    assert await given(one, 5) == 0
    clock.now += 0.2
    assert await given(one, 1) == 1


async def test_a_crash_fills_no_bucket(two: Two, owner: Connection) -> None:
    one, other = (LeasedLimits(each, calls_per_minute=2) for each in two)
    assert await given(one, 3) == 2
    owner.execute(CRASH)
    assert await given(other, 3) == 0
    owner.execute("UPDATE portions_began SET at = at - interval '1 minute'")
    owner.execute("TRUNCATE portions")
    assert await given(LeasedLimits(two[0], calls_per_minute=2), 3) == 2


async def test_where_nobody_can_say_nothing_is_called(two: Two) -> None:
    one = LeasedLimits(two[0], calls_per_minute=2)
    two[0].close()
    with pytest.raises(AuditUnavailable):
        await one.take("emma")


def proof(name: str = "p", *, made_at: float = NOW) -> Proof:
    return Proof(key="k", use=name.encode(), made_at=made_at, until=made_at + 60)


def seen(allowance: PostgresAllowance) -> SeenProofs:
    return SeenProofs(since=NOW - 1000, elsewhere=allowance)


async def test_a_proof_that_was_used_at_one_gateway_is_used_at_another(two: Two) -> None:
    one, other = map(seen, two)
    first = proof()
    await one.use_soon(first, owner="emma", now=NOW)
    await one.use_soon(first, owner="emma", now=NOW)  # the same request looks again
    with pytest.raises(ValueError, match="used before"):
        await other.use_soon(proof(), owner="emma", now=NOW)
    with pytest.raises(ValueError, match="used before"):
        seen(two[0]).use(proof(), owner="emma", now=NOW)
    other.use(proof("q"), owner="emma", now=NOW)


async def test_of_many_uses_of_one_proof_at_once_one_is_good(two: Two) -> None:
    told = await asyncio.gather(
        *(seen(each).use_soon(proof(), owner="emma", now=NOW) for each in two for _ in range(8)),
        return_exceptions=True,
    )
    assert sum(one is None for one in told) == 1
    assert {str(one) for one in told if one is not None} == {"used before"}


async def test_after_a_crash_no_proof_is_good_that_was_made_before(
    two: Two, owner: Connection
) -> None:
    one, other = map(seen, two)
    one.use(proof(), owner="emma", now=NOW)
    owner.execute(CRASH)
    with pytest.raises(ValueError, match="began"):
        other.use(proof(made_at=NOW - 1), owner="emma", now=NOW + 0.9)
    other.use(proof("q", made_at=NOW + 0.5), owner="emma", now=NOW + 0.9)


async def test_a_proof_that_cannot_be_noted_is_no_good(two: Two) -> None:
    two[0].close()
    with pytest.raises(IdentityUnavailable):
        await seen(two[0]).use_soon(proof(), owner="emma", now=NOW)


async def test_of_many_gateways_one_has_what_is_claimed(two: Two, owner: Connection) -> None:
    told = await asyncio.gather(*(each.claim("a", NOW, NOW + 60) for each in two for _ in range(4)))
    assert sum(told) == 1
    assert await two[0].claim("b", NOW, NOW + 60)
    owner.execute(CRASH)
    told = [await each.claim("a", NOW + 2.5, NOW + 62.5) for each in two]
    assert told == [True, False]


async def test_what_is_claimed_by_a_gateway_that_ended_is_anothers_in_time(two: Two) -> None:
    one, other = two
    assert await one.claim("a", NOW, NOW + 60)
    other.forget(now=NOW + 59)
    assert not await other.claim("a", NOW + 59, NOW + 119)
    other.forget(now=NOW + 61)
    assert await other.claim("a", NOW + 61, NOW + 121)


async def test_what_cannot_be_claimed_is_nobodys(two: Two) -> None:
    two[0].close()
    with pytest.raises(AuditUnavailable):
        await two[0].claim("a", NOW, NOW + 60)


def attempts(allowance: PostgresAllowance, **more: float) -> Attempts:
    return Attempts(
        lambda: NOW,
        by_address=100,
        by_target=3,
        shared=allowance,
        what="password",
        **more,
    )


async def test_guesses_at_all_gateways_count_together(two: Two) -> None:
    """From many addresses at once, at one account."""
    told = await asyncio.gather(
        *(attempts(each).begin(f"192.0.2.{n}", "emma") for n in range(10) for each in two),
        return_exceptions=True,
    )
    assert sum(one is None for one in told) == 3
    (throttled,) = {type(one) for one in told if one is not None}
    assert throttled is Throttled
    await attempts(two[1]).begin("192.0.2.1", "bob")


async def test_of_two_guesses_at_once_the_last_that_is_allowed_is_one(
    two: Two, address: str, owner: Connection
) -> None:
    for n in range(2):
        await attempts(two[0]).begin(f"192.0.2.{n}", "emma")
    with closing(connect(address, application="test holds")) as holder, holder.transaction():
        holder.execute("SELECT FROM attempts FOR UPDATE")
        guesses = [
            asyncio.create_task(attempts(each).begin(f"192.0.2.{n}", "emma"))
            for n, each in enumerate(two)
        ]
        assert await blocked(owner, *guesses, at=2)
    told = await asyncio.gather(*guesses, return_exceptions=True)
    assert sorted(type(one).__name__ for one in told) == ["NoneType", "Throttled"]


async def test_guesses_from_one_address_count_together(two: Two) -> None:
    one, other = (
        Attempts(lambda: NOW, by_address=2, by_target=9, shared=each, what="device") for each in two
    )
    await one.begin("2001:db8::1", "emma")
    await other.begin("2001:db8::2", "bob")
    with pytest.raises(Throttled):
        await one.begin("2001:db8::3", "ada")
    await attempts(two[0]).begin("2001:db8::3", "ada")  # at something else


async def test_an_attempt_that_was_no_guess_takes_only_itself_back(two: Two) -> None:
    one, other = map(attempts, two)
    for _ in range(3):
        await one.begin("192.0.2.1", "emma")
    await other.take_back("192.0.2.1", "emma")
    await other.begin("192.0.2.1", "emma")
    with pytest.raises(Throttled):
        await one.begin("192.0.2.1", "emma")


async def test_attempts_count_for_as_long_as_is_said(two: Two, owner: Connection) -> None:
    one, other = map(attempts, two)
    for _ in range(3):
        await one.begin("192.0.2.1", "emma")
    owner.execute("UPDATE attempts SET times = ARRAY[times[1] - 290, times[2], times[3]]")
    with pytest.raises(Throttled) as found:
        await other.begin("192.0.2.1", "emma")
    assert 0 < found.value.wait_s <= 10
    owner.execute("UPDATE attempts SET times = ARRAY[times[1] - 20, times[2], times[3]]")
    await other.begin("192.0.2.1", "emma")
    with pytest.raises(Throttled):
        await one.begin("192.0.2.1", "emma")


async def test_an_attempt_that_cannot_be_counted_is_none(two: Two) -> None:
    two[0].close()
    with pytest.raises(IdentityUnavailable):
        await attempts(two[0]).begin("192.0.2.1", "emma")


def use(amount: int = 1, *, most: int | None = 5, begin: int = 600, of: str = "q") -> Use:
    return Use(quota=of, under=("emma", ""), begin=begin, amount=amount, most=most)


async def test_of_a_quota_all_gateways_together_use_as_much_as_one_would(two: Two) -> None:
    told = await asyncio.gather(*(each.add([use()]) for each in two for _ in range(10)))
    assert sorted(one.used for (one,) in told if one.fits) == [1, 2, 3, 4, 5]
    assert {one.used for (one,) in told if not one.fits} == {5}
    assert [(one.begin, one.amount) for one in two[1].kept()] == [(600, 5)]


async def test_of_two_calls_at_once_the_last_that_a_quota_has_is_one(
    two: Two, address: str, owner: Connection
) -> None:
    await two[0].add([use(4)])
    with closing(connect(address, application="test holds")) as holder, holder.transaction():
        holder.execute("SELECT FROM quota_counts FOR UPDATE")
        calls = [asyncio.create_task(each.add([use()])) for each in two]
        assert await blocked(owner, *calls, at=2)
    told = [one for (one,) in await asyncio.gather(*calls)]
    assert sorted((one.used, one.fits) for one in told) == [(5, False), (5, True)]


async def test_a_bucket_that_is_forgotten_just_then_is_taken_from(
    two: Two, address: str, owner: Connection
) -> None:
    one, other = two
    await one.take(b"k", size=60, in_s=3600, wanted=0, unused=0)
    with closing(connect(address, application="test holds")) as holder, holder.transaction():
        holder.execute("SELECT FROM portions FOR UPDATE")
        taking = asyncio.create_task(other.take(b"k", size=60, in_s=3600, wanted=3, unused=0))
        assert await blocked(owner, taking, at=1)
        holder.execute("DELETE FROM portions")
    portion = await taking
    assert (portion.taken, round(portion.level)) == (3, 57)
    assert owner.execute("SELECT round(level) FROM portions").fetchall() == [(57,)]


async def test_a_guess_under_what_is_forgotten_just_then_counts(
    two: Two, address: str, owner: Connection
) -> None:
    one, other = two
    await one.note([("emma", 5)], window_s=60)
    with closing(connect(address, application="test holds")) as holder, holder.transaction():
        holder.execute("SELECT FROM attempts FOR UPDATE")
        guess = asyncio.create_task(other.note([("emma", 1)], window_s=60))
        assert await blocked(owner, guess, at=1)
        holder.execute("DELETE FROM attempts")
    assert await guess == 0
    assert await one.note([("emma", 1)], window_s=60) > 0


async def test_no_count_waits_for_whoever_orders_the_log(two: Two, owner: Connection) -> None:
    """Nor can a count be named so that nobody could take over from it."""
    one, _ = two
    named = (Lock.LEAD, use().quota, json.dumps(use().under).encode())
    owner.execute("SELECT pg_advisory_lock(%s, hashtext(%s || ' ' || encode(%s, 'hex')))", named)
    (found,) = await one.add([use(1)])
    assert found.used == 1


async def test_what_does_not_fit_one_count_is_added_to_none(two: Two) -> None:
    one, other = two
    await one.add([use(5)])
    found = await other.add([use(1, of="other"), use(1)])
    assert [(each.used, each.fits) for each in found] == [(0, True), (5, False)]
    assert [each.quota for each in one.kept()] == ["q"]
    (beyond,) = await other.add([use(1, most=None)])
    assert (beyond.used, beyond.fits) == (6, True)


async def test_what_is_given_back_can_be_used_by_another(two: Two) -> None:
    one, other = two
    await one.add([use(5)])
    await one.add([use(-2, most=None)])
    (found,) = await other.add([use(2)])
    assert (found.used, found.fits) == (5, True)
    await one.add([use(-9, most=None)])
    assert [each.amount for each in one.kept()] == [0]


async def test_a_count_begins_anew_with_its_span_and_not_for_whoever_is_late(two: Two) -> None:
    one, other = two
    await one.add([use(5)])
    (anew,) = await other.add([use(1, begin=1200)])
    assert (anew.used, anew.fits) == (1, True)
    (late,) = await one.add([use(5, begin=600)])
    assert (late.used, late.fits) == (1, False)
    await one.add([use(-5, most=None)])  # of the span that is over
    assert [(each.begin, each.amount) for each in two[0].kept()] == [(1200, 1)]


async def test_calls_under_way_count_as_long_as_whoever_carries_them_lives(
    two: Two, owner: Connection
) -> None:
    one, other = two
    owner.execute("INSERT INTO replicas (name) VALUES ('one/1'), ('other/2')")
    await one.add([use(4, begin=0)])
    (found,) = await other.add([use(2, begin=0)])
    assert (found.used, found.fits) == (4, False)
    owner.execute("UPDATE replicas SET heard = heard - interval '1 minute' WHERE name = 'one/1'")
    (found,) = await other.add([use(2, begin=0)])
    assert (found.used, found.fits) == (2, True)
    assert one.kept() == []


async def house_with(quota: Quota, shared: PostgresAllowance) -> House:
    house = House()
    house.quotas = Quotas([quota], prices={}, clock=house.clock, shared=shared)
    house.pipeline = house._wired()
    await house.approve_all()
    return house


async def test_a_call_beyond_what_all_gateways_have_used_is_refused(two: Two) -> None:
    per_day = Quota(name="mails", count=Count.CALLS, most=3, per=Per.DAY)
    houses = [await house_with(per_day, each) for each in two]
    codes = [(await house.handle(house.call("send"))).code for house in houses * 3]
    assert codes == [None, None, None, "rate_limited", "rate_limited", "rate_limited"]
    assert sum(len(house.server.saw) for house in houses) == 3
    for house in houses:
        (counts,) = house.quotas._all.values()
        assert list(counts.used.values()) == [3]


async def test_what_cannot_be_counted_is_not_called(two: Two) -> None:
    house = await house_with(Quota(name="mails", count=Count.CALLS, most=3, per=Per.DAY), two[0])
    two[0].close()
    seen = await house.handle(house.call("send"))
    assert (seen.code, house.server.saw) == ("audit_unavailable", [])
    (counts,) = house.quotas._all.values()
    assert counts.used == {}


async def test_a_call_that_has_ended_is_under_way_no_more_at_any_gateway(
    two: Two, owner: Connection
) -> None:
    owner.execute("INSERT INTO replicas (name) VALUES ('one/1'), ('other/2')")
    at_once = Quota(name="busy", count=Count.UNDER_WAY, most=1, per=None)
    one, other = [await house_with(at_once, each) for each in two]
    for _ in range(3):
        for house in (one, other):
            assert (await house.handle(house.call("send"))).code is None
            await asyncio.gather(*house.quotas._telling)


async def test_what_counts_no_more_is_forgotten_and_nothing_else(
    two: Two, owner: Connection
) -> None:
    one = LeasedLimits(two[0], calls_per_minute=60)
    for key in ("full by now", "not yet"):
        await one.take(key)
    seen(two[0]).use(proof(), owner="emma", now=NOW)
    seen(two[0]).use(proof("later", made_at=NOW + 600), owner="emma", now=NOW + 600)
    await attempts(two[0]).begin("192.0.2.1", "emma")
    owner.execute(
        "UPDATE portions SET at = at - interval '2 minutes' WHERE key IN (SELECT key FROM portions LIMIT 1)"
    )
    two[0].forget(now=NOW + 300)
    counts = [
        owner.execute(f"SELECT count(*) FROM {table}".encode()).fetchall()[0][0]
        for table in ("portions", "seen_proofs", "attempts")
    ]
    assert counts == [1, 1, 2]
    with pytest.raises(ValueError, match="used before"):
        seen(two[1]).use(proof("later", made_at=NOW + 600), owner="emma", now=NOW + 600)
