"""What replicas do to each other's state at once: each race is forced, and would go wrong without its guard."""

import asyncio
import time
from collections.abc import AsyncIterator
from contextlib import closing
from dataclasses import replace
from functools import partial
from typing import Any

import pytest

from gateway.domain.approvals import Approval, ApprovalId, ApprovalState
from gateway.domain.late import LateId, Stage, ended
from gateway.domain.premises import NOTHING, Premise, Premises, Uses
from gateway.domain.scripts import ScriptId
from gateway.domain.tools import Profile, UpstreamId
from gateway.errors import Changed, Denied, RateLimited
from gateway.pins.verify import verify
from gateway.ports.scripts import Parked
from gateway.storage.postgres.connection import Connection, connect
from tests.postgres import Postgres
from tests.storage.placed import emptied
from tests.storage.postgres.replicas import Gateway, gateway, news_held
from tests.storage.postgres.shared import (
    blocked,
    commits_held,
    in_tray,
    record,
    resting_on,
    with_runs,
)
from tests.storage.suite import manifest, sighting, target
from tests.storage.test_approval_stores import RULES, answer, question
from tests.storage.test_late_calls import late
from tests.storage.test_script_store import script
from tests.storage.test_server_choices import NO_RUNS, only, without

Two = tuple[Gateway, Gateway]
YES = ApprovalId("a")
ONE = ScriptId("s_1")


@pytest.fixture
def address(postgres: Postgres) -> str:
    return emptied(postgres)


@pytest.fixture
def owner(address: str) -> Any:
    with closing(connect(address, application="test")) as opened:
        yield opened


@pytest.fixture
async def two(address: str, owner: Connection) -> AsyncIterator[Two]:
    with_runs(owner, "r")
    async with gateway(address, "one") as one, gateway(address, "other") as other:
        yield one, other


async def at_once(owner: Connection, address: str, *jobs: Any) -> list[Any]:
    """Let all of them read and write before any of them is committed."""
    with news_held(address):
        tasks = [asyncio.ensure_future(job) for job in jobs]
        await blocked(owner, *tasks, at=len(tasks))
    return await asyncio.gather(*tasks, return_exceptions=True)


async def allowed(at: Gateway, name: str = "a", now: float | None = None) -> None:
    """Have a yes on file that holds by the database's clock, as calls are compared by that."""
    now = time.time() if now is None else now
    await at.approvals.file(question(name, call=name, now=now))
    await answer(at.approvals, name, now=now)


async def test_the_same_question_is_filed_once(two: Two, address: str, owner: Connection) -> None:
    one, other = two
    filed = await at_once(
        owner, address, one.approvals.file(question("a")), other.approvals.file(question("b"))
    )
    assert {found.request.id for found in filed} in ({"a"}, {"b"})
    assert sorted(found.request.asked for found in filed) == [1, 2]


async def test_no_more_questions_wait_than_may(two: Two, address: str, owner: Connection) -> None:
    one, other = two
    for n in range(RULES.most_waiting - 1):
        await one.approvals.file(question(f"q{n}", call=f"c{n}"))
    filed = await at_once(
        owner,
        address,
        one.approvals.file(question("a", call="a")),
        other.approvals.file(question("b", call="b")),
    )
    assert {type(found) for found in filed} == {Approval, RateLimited}


async def test_a_question_has_one_answer(two: Two, address: str, owner: Connection) -> None:
    one, other = two
    await one.approvals.file(question())
    given = await at_once(
        owner, address, answer(one.approvals, allow=True), answer(other.approvals, allow=False)
    )
    assert {type(found) for found in given} == {Approval, Denied}
    for each in two:
        await each.state.caught_up()
    assert one.approvals.all(now=question().asked_at) == other.approvals.all(
        now=question().asked_at
    )


async def test_of_choices_at_two_replicas_none_is_lost(
    two: Two, address: str, owner: Connection
) -> None:
    one, other = two
    await one.choices.choose("p", lambda _: only("a", "b", "c"), runs=NO_RUNS)
    await at_once(
        owner,
        address,
        *(
            each.choices.choose(
                "p", partial(without, gone=frozenset({UpstreamId(gone)})), runs=NO_RUNS
            )
            for each, gone in ((one, "a"), (other, "b"))
        ),
    )
    await one.state.caught_up()
    assert (one.choices.of("p").newest, one.choices.of("p").number) == (only("c"), 3)


async def test_of_two_ends_of_a_late_call_one_stays(
    two: Two, address: str, owner: Connection
) -> None:
    one, other = two
    await one.late.begin(late())
    await other.state.caught_up()
    before = await at_once(
        owner,
        address,
        one.late.change(LateId("l1"), partial(ended, stage=Stage.COMPLETED)),
        other.late.change(LateId("l1"), partial(ended, stage=Stage.FAILED)),
    )
    assert sorted(found.has_ended for found in before) == [False, True]


async def test_a_program_that_is_ended_as_it_begins_to_wait_holds_nothing(
    two: Two, address: str, owner: Connection
) -> None:
    one, other = two
    await one.scripts.begin(script())
    await at_once(
        owner,
        address,
        one.scripts.park(Parked(script=script(), snapshot=b"state")),
        other.scripts.end(ONE),
    )
    await asyncio.gather(one.state.caught_up(), other.state.caught_up())
    assert not one.scripts.waits(ONE)
    assert one.scripts.find(ONE, now=script().began) is None
    assert owner.execute("SELECT count(*) FROM parked_scripts").fetchall() == [(0,)]


async def test_a_yes_that_a_call_is_using_up_is_used_by_nobody_else(
    two: Two, address: str, owner: Connection
) -> None:
    one, other = two
    now = time.time()
    await allowed(one, now=now)
    await other.state.caught_up()
    with commits_held(address):
        put = asyncio.create_task(
            one.ledger.put(record("out"), resting_on("r", yes=YES), Uses(yes=YES))
        )
        assert await blocked(owner, put, at=1)
        used = asyncio.create_task(other.approvals.use(YES, now=now + 2))
        assert await blocked(owner, put, used, at=2)
    assert (await put).id == "out"
    assert not await used


async def test_a_yes_that_is_being_used_up_is_used_by_no_call(
    two: Two, address: str, owner: Connection
) -> None:
    one, other = two
    now = time.time()
    await allowed(one, now=now)
    await other.state.caught_up()
    with news_held(address):
        used = asyncio.create_task(other.approvals.use(YES, now=now + 2))
        assert await blocked(owner, used, at=1)
        put = asyncio.create_task(
            one.ledger.put(record("out"), resting_on("r", yes=YES), Uses(yes=YES))
        )
        assert await blocked(owner, put, at=2)
    assert await used
    with pytest.raises(Changed) as found:
        await put
    assert found.value.what == {Premise.APPROVAL}
    seen = one.approvals.get(YES, now=now)
    assert seen is not None
    assert seen.state is ApprovalState.USED


async def test_a_yes_that_a_call_has_used_up_is_shown_as_used(two: Two) -> None:
    one, other = two
    await allowed(one)
    await one.ledger.put(record("out"), resting_on("r", yes=YES), Uses(yes=YES))
    await other.state.caught_up()
    for each in two:
        found = each.approvals.get(YES, now=time.time())
        assert found is not None
        assert found.state is ApprovalState.USED


def live(**more: Any) -> Any:
    """Return a program that is live by the database's clock."""
    return script(began=time.time(), expires_at=time.time() + 600, **more)


async def test_of_a_budget_calls_and_jobs_use_up_what_there_is(
    two: Two, address: str, owner: Connection
) -> None:
    one, other = two
    await one.scripts.begin(live(most=1, grants=None))
    uses = Uses(script=ONE, grants=(None,))
    with commits_held(address):
        put = asyncio.create_task(one.ledger.put(record("out"), resting_on("r"), uses))
        assert await blocked(owner, put, at=1)
        taken = asyncio.create_task(other.scripts.take(ONE, None, now=time.time()))
        assert await blocked(owner, put, taken, at=2)
    assert (await put).id == "out"
    assert not await taken


async def test_a_program_that_was_ended_at_one_calls_nothing_at_another(
    two: Two, address: str, owner: Connection
) -> None:
    one, other = two
    await one.scripts.begin(live(most=None, grants=None))
    await other.state.caught_up()
    uses = Uses(script=ONE, grants=(None,))
    with commits_held(address):
        put = asyncio.create_task(one.ledger.put(record("out"), resting_on("r"), uses))
        assert await blocked(owner, put, at=1)
        ends = asyncio.create_task(other.scripts.end(ONE))
        assert await blocked(owner, put, ends, at=2)
    assert (await put).id == "out"
    assert await ends
    with pytest.raises(Changed) as found:
        await one.ledger.put(record("more"), resting_on("r"), uses)
    assert found.value.what == {Premise.BUDGET}
    assert one.scripts.find(ONE, now=time.time()) is None
    assert in_tray(owner) == ["out"]


async def test_a_program_can_be_ended_while_it_calls_and_calls(two: Two, owner: Connection) -> None:
    one, other = two
    await one.scripts.begin(live(most=None, grants=None))
    uses = Uses(script=ONE, grants=(None,))

    async def calls(name: str) -> int:
        for n in range(10**6):
            try:
                await one.ledger.put(record(f"{name}-{n}"), resting_on("r"), uses)
            except Changed:
                return n
        return -1

    calling = [asyncio.create_task(calls(f"c{n}")) for n in range(4)]
    while len(in_tray(owner)) < 20:
        assert not any(one.done() for one in calling)
        await asyncio.sleep(0)
    assert await other.scripts.end(ONE)
    await asyncio.gather(*calling)


async def pinned(one: Gateway, other: Gateway) -> Premises:
    """Return what a call of an approved definition rests on, as the other replica decides it."""
    await one.pins.observe([sighting(target())])
    expected = str(manifest(target()).digest)
    await one.pins.approve(target(), Profile.LEGACY, expected=expected, by="emma", note="")
    await other.state.caught_up()
    pin = other.pins.find(target(), Profile.LEGACY)
    assert pin is not None
    verified = verify(target(), pin, identity=pin.observed.identity)
    return resting_on("r", pinned=verified, profile=Profile.LEGACY)


async def test_after_a_revocation_at_one_nothing_goes_out_at_another(
    two: Two, owner: Connection
) -> None:
    one, other = two
    premises = await pinned(one, other)
    await other.ledger.put(record("before"), premises, NOTHING)
    await one.pins.revoke(target(), Profile.LEGACY, by="bob", note="")
    with pytest.raises(Changed) as found:
        await other.ledger.put(record("after"), premises, NOTHING)
    assert found.value.what == {Premise.PIN}
    assert in_tray(owner) == ["before"]
    assert other.pins.all() == one.pins.all()  # it is decided again on what is so by now


async def goes_out(at: Gateway, call: str, now: float) -> str:
    """Make a call that needs a yes, as the pipeline does: decided anew where something has changed."""
    asked = question(f"{call}-again", call=call, now=now)
    for _ in range(3):
        found = at.approvals.find(asked.fingerprint, asked.scope, now=now + 1)
        try:
            if found is None or found.state is ApprovalState.WAITING:
                return (await at.approvals.file(asked)).state
            yes = found.request.id
            await at.ledger.put(record(call), resting_on("r", yes=yes), Uses(yes=yes))
        except Changed:
            continue
        return "out"
    return "changes too fast"


async def test_what_was_allowed_at_one_goes_out_at_another_at_once(
    two: Two, owner: Connection
) -> None:
    one, other = two
    said = []
    for n in range(100):
        now = time.time()
        principal = f"p{n}"
        await one.approvals.file(question(f"c{n}", call=f"c{n}", principal=principal, now=now))
        await other.state.caught_up()
        await answer(other.approvals, f"c{n}", now=now)
        said.append(await goes_out(one, f"c{n}", now))
    assert said.count("out") == 100
    assert len(in_tray(owner)) == 100


async def test_what_was_approved_at_one_is_called_at_another_at_once(two: Two) -> None:
    one, other = two
    await one.pins.observe([sighting(target())])
    await other.state.caught_up()
    expected = str(manifest(target()).digest)
    await one.pins.approve(target(), Profile.LEGACY, expected=expected, by="emma", note="")
    assert await other.ledger.caught_up()  # of a no it is asked whether it rests on all there is
    pin = other.pins.find(target(), Profile.LEGACY)
    assert pin is not None
    premises = resting_on(
        "r",
        pinned=verify(target(), pin, identity=pin.observed.identity),
        profile=Profile.LEGACY,
    )
    assert (await other.ledger.put(record("out"), premises, NOTHING)).id == "out"


async def test_a_question_that_was_answered_elsewhere_is_not_asked_again(two: Two) -> None:
    one, other = two
    await one.approvals.file(question())
    await other.state.caught_up()
    await answer(other.approvals)
    with pytest.raises(Changed):
        await one.approvals.file(replace(question("b"), asked_at=question().asked_at + 2))
    assert [found.state for found in one.approvals.all(now=question().asked_at + 2)] == ["allowed"]
