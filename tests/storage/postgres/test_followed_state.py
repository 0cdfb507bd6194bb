"""What one replica commits, the memories of the others show: what is new, what changed, and what is gone."""

import asyncio
import threading
import time
from collections.abc import AsyncIterator, Callable
from contextlib import closing
from dataclasses import replace
from functools import partial
from types import SimpleNamespace
from typing import Any

import psycopg
import pytest

from gateway.domain.approvals import ApprovalId, ApprovalState
from gateway.domain.late import LateId, Stage, ended
from gateway.domain.scripts import ScriptId
from gateway.domain.selection import Choices
from gateway.domain.tools import PinStatus, Profile
from gateway.errors import AuditUnavailable
from gateway.ports.scripts import Parked
from gateway.storage.pins import DurablePinStore
from gateway.storage.postgres import news
from gateway.storage.postgres.connection import connect
from tests.postgres import Postgres
from tests.storage.placed import PATIENCE_S, emptied, shared
from tests.storage.postgres.replicas import Stores
from tests.storage.suite import NOW, UNLIKE, manifest, sighting, target
from tests.storage.test_approval_stores import NOW as ASKED
from tests.storage.test_approval_stores import RULES, answer, question
from tests.storage.test_late_calls import late
from tests.storage.test_script_store import script
from tests.storage.test_server_choices import NO_RUNS, only

YES = ApprovalId("a")
ONE = ScriptId("s_1")
SOON = script().began


@pytest.fixture
def address(postgres: Postgres) -> str:
    return emptied(postgres)


@pytest.fixture
async def two(address: str) -> AsyncIterator[tuple[Stores, Stores]]:
    async with shared(address) as one, shared(address) as other:
        yield Stores(one), Stores(other)


Two = tuple[Stores, Stores]


async def shown(pins: DurablePinStore, *names: str) -> None:
    await pins.observe([sighting(target(name)) for name in names])


async def approve(pins: DurablePinStore, name: str = "send") -> None:
    expected = str(manifest(target(name)).digest)
    await pins.approve(target(name), Profile.LEGACY, expected=expected, by="emma", note="")


async def test_a_definition_is_what_any_replica_has_made_of_it(two: Two) -> None:
    one, other = two
    await shown(one.pins, "send", "read")
    await approve(one.pins)
    before = other.epoch.now
    assert await other.state.caught_up()
    assert other.pins.all() == one.pins.all()
    assert other.epoch.now != before
    await other.pins.revoke(target(), Profile.LEGACY, by="bob", note="")
    assert await one.state.caught_up()
    found = one.pins.find(target(), Profile.LEGACY)
    assert found is not None
    assert found.status is PinStatus.REVOKED


@pytest.mark.parametrize("names", UNLIKE)
async def test_names_that_look_alike_are_told_apart_elsewhere(
    two: Two, names: tuple[str, str]
) -> None:
    one, other = two
    await shown(one.pins, *names)
    await approve(one.pins, names[0])
    await other.state.caught_up()
    found = [other.pins.find(target(name), Profile.LEGACY) for name in names]
    assert [None if pin is None else pin.status for pin in found] == ["approved", "pending"]


async def test_what_we_have_changed_ourselves_is_no_news(two: Two) -> None:
    one, other = two
    await shown(one.pins, "send")
    before = one.epoch.now
    assert not await one.state.caught_up()
    assert one.epoch.now == before
    assert await other.state.caught_up()
    assert not await other.state.caught_up()


async def test_ours_and_anothers_change_of_one_thing_are_both_seen(two: Two) -> None:
    one, other = two
    await shown(one.pins, "send")
    await approve(one.pins)
    await other.state.caught_up()
    await other.pins.revoke(target(), Profile.LEGACY, by="bob", note="")
    await shown(one.pins, "read")  # after it, and of another row
    assert await one.state.caught_up()
    assert one.pins.all() == other.pins.all() or await other.state.caught_up()
    assert one.pins.all() == other.pins.all()


async def test_a_question_is_known_and_answered_and_forgotten_everywhere(two: Two) -> None:
    one, other = two
    await one.approvals.file(question())
    await other.state.caught_up()
    assert other.approvals.get(YES, now=ASKED) == one.approvals.get(YES, now=ASKED)
    await answer(other.approvals)
    await one.state.caught_up()
    found = one.approvals.get(YES, now=ASKED + 1)
    assert found is not None
    assert found.state is ApprovalState.ALLOWED
    later = ASKED + 1 + RULES.expire_s + RULES.keep_s
    await one.approvals.file(question("b", call="b", now=later))
    await other.state.caught_up()
    assert [one.request.id for one in other.approvals.all(now=later)] == ["b"]


async def test_a_program_that_was_ended_elsewhere_is_told_of_here(two: Two) -> None:
    one, other = two
    told: list[str] = []
    await one.scripts.begin(script())
    await other.state.caught_up()
    assert other.scripts.find(ONE, now=SOON) == script()
    with one.scripts.watched(ONE, lambda: told.append("ended")):
        await other.scripts.end(ONE)
        assert told == []
        await one.state.caught_up()
    assert told == ["ended"]
    assert one.scripts.find(ONE, now=SOON) is None
    assert list(one.scripts.live(now=SOON)) == []


async def test_a_program_that_waits_goes_on_at_one_replica(two: Two) -> None:
    one, other = two
    parked = Parked(script=script(), snapshot=b"state")
    await one.scripts.begin(script())
    await one.scripts.park(parked)
    await other.state.caught_up()
    assert other.scripts.waits(ONE)
    taken = await asyncio.gather(
        *(each.scripts.unpark(ONE, "alice", now=SOON) for each in (one, other))
    )
    assert sorted(taken, key=lambda found: found is None) == [parked, None]
    await asyncio.gather(one.state.caught_up(), other.state.caught_up())
    assert not one.scripts.waits(ONE)
    assert not other.scripts.waits(ONE)


async def test_what_a_program_uses_up_is_no_news(two: Two) -> None:
    one, other = two
    await one.scripts.begin(script())
    await other.state.caught_up()
    assert await one.scripts.take(ONE, 0, now=SOON)
    assert not await other.state.caught_up()
    assert [await other.scripts.take(ONE, 0, now=SOON) for _ in range(2)] == [True, False]


async def test_a_late_call_is_known_and_forgotten_everywhere(two: Two) -> None:
    one, other = two
    await one.late.begin(late())
    await other.state.caught_up()
    assert other.late.find(LateId("l1")) == late()
    before = await other.late.change(LateId("l1"), partial(ended, stage=Stage.COMPLETED))
    assert before == late().progress
    await other.late.change(LateId("l1"), lambda now: replace(now, recorded=True))
    await one.state.caught_up()
    assert one.late.find(LateId("l1")) == other.late.find(LateId("l1"))
    assert await one.late.forget(before=late().expires_at + 1) == 1
    await other.state.caught_up()
    assert other.late.find(LateId("l1")) is None


async def test_what_is_chosen_at_one_is_seen_at_all(two: Two) -> None:
    one, other = two
    await one.choices.choose("p", lambda _: only("mail"), runs=NO_RUNS)
    await other.state.caught_up()
    assert other.choices.of("p") == one.choices.of("p")
    for principal in ("q", "r"):  # of more than two, whose choice is the oldest is forgotten
        await other.choices.choose(principal, lambda _: only("notes"), runs=NO_RUNS)
    await one.state.caught_up()
    assert one.choices.of("p") == Choices()
    assert one.choices.of("r").number == 1


async def test_a_session_ends_and_follows_at_all(two: Two) -> None:
    one, other = two
    await one.sessions.subscribe("alice", "s", "b", person="alice")
    await one.sessions.subscribe("alice", "s", "a", person="alice")
    await other.state.caught_up()
    assert set(other.sessions.subscribed("alice", "s")) == {"a", "b"}
    await other.sessions.unsubscribe("alice", "s", "b", person="alice")
    await one.state.caught_up()
    assert one.sessions.subscribed("alice", "s") == ("a",)
    await one.sessions.end("alice", "s", person="alice")
    await other.state.caught_up()
    assert other.sessions.has_ended("alice", "s")
    assert other.sessions.subscribed("alice", "s") == ()


async def test_memories_follow_by_themselves(address: str) -> None:
    async with shared(address) as one, shared(address, every_s=0.01) as other:
        mine, theirs = Stores(one), Stores(other)
        other.start()
        await shown(mine.pins, "send")
        await until(lambda: theirs.pins.all() == mine.pins.all())


async def until(holds: Callable[[], bool]) -> None:
    end = time.monotonic() + PATIENCE_S
    while not holds():
        assert time.monotonic() < end
        await asyncio.sleep(0.01)


async def test_a_change_that_is_committed_after_a_later_one_is_seen(two: Two, address: str) -> None:
    """Numbers are not in the order of commits."""
    one, other = two
    await shown(one.pins, "send", "read")
    with closing(psycopg.connect(address)) as slow:
        slow.execute("UPDATE pins SET note = 'slow' WHERE name = 'send'")
        await one.pins.revoke(target("read"), Profile.LEGACY, by="bob", note="")
        await other.state.caught_up()
        slow.commit()
    await other.state.caught_up()
    found = other.pins.find(target("send"), Profile.LEGACY)
    assert found is not None
    assert found.note == "slow"


async def test_whoever_has_not_looked_for_long_reads_everything(
    two: Two, address: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    one, other = two
    await one.approvals.file(question())
    await one.sessions.end("alice", "s", person="alice")
    with closing(connect(address, application="test")) as owner:
        owner.execute("DELETE FROM state_news")
    monkeypatch.setattr(news, "_KNOWN_S", 0.0)
    assert await other.state.caught_up()
    assert other.approvals.get(YES, now=NOW) is not None
    assert other.sessions.has_ended("alice", "s")
    with closing(connect(address, application="test")) as owner:
        owner.execute("DELETE FROM approvals")
        owner.execute("DELETE FROM front_sessions_ended")
        owner.execute("DELETE FROM state_news")
    await other.state.caught_up()
    assert list(other.approvals.all(now=NOW)) == []
    assert not other.sessions.has_ended("alice", "s")


async def test_whoever_stood_still_for_long_reads_everything(
    two: Two, address: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Then our own clock has not gone on either: what is forgotten goes by the server's."""
    one, other = two
    await one.sessions.end("alice", "s", person="alice")
    with closing(connect(address, application="test")) as owner:
        owner.execute("DELETE FROM state_news")
    still = SimpleNamespace(monotonic=lambda: other.state._news.looked_at)
    monkeypatch.setattr(news, "time", still)
    monkeypatch.setattr(news, "_KNOWN_S", 0.0)
    assert await other.state.caught_up()
    assert other.sessions.has_ended("alice", "s")


async def test_another_server_is_not_believed_to_count_as_this_one_did(two: Two) -> None:
    one, other = two
    await shown(one.pins, "send")
    seen = other.state._news
    seen._server, seen._seen = "another one's start", "900000000:900000000:"
    assert await other.state.caught_up()
    assert other.pins.all() == one.pins.all()


async def test_old_news_is_forgotten(
    two: Two, address: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    one, other = two
    await shown(one.pins, "send")
    with closing(connect(address, application="test")) as owner:
        owner.execute("UPDATE state_news SET at = at - interval '2 hours'")
        await shown(one.pins, "read")
        monkeypatch.setattr(news, "_FORGOTTEN_EVERY_S", 0.0)
        await other.state.caught_up()
        assert owner.execute("SELECT count(*) FROM state_news").fetchall() == [(1,)]


async def test_how_far_memories_are_behind_is_known(two: Two) -> None:
    _, other = two
    other.state._news.looked_at -= 100
    assert other.state.behind_s > 100
    started = time.monotonic()
    await other.state.caught_up()
    assert other.state.behind_s <= time.monotonic() - started


async def test_a_look_that_has_begun_is_not_anothers(
    two: Two, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What was committed just before somebody asks may be missing in a look that has begun."""
    one, other = two
    looks: list[Any] = []
    go_on = threading.Event()
    look = other.state._news.look

    def held(*given: Any) -> Any:
        looks.append(look(*given))
        go_on.wait(PATIENCE_S)
        return looks[-1]

    monkeypatch.setattr(other.state._news, "look", held)
    first = asyncio.create_task(other.state.caught_up())
    await until(lambda: bool(looks))
    await shown(one.pins, "send")
    second = asyncio.create_task(other.state.caught_up())
    await asyncio.sleep(0)
    go_on.set()
    assert [await first, await second] == [False, True]
    assert other.pins.all() == one.pins.all()


async def test_what_was_seen_is_no_news_however_long_others_take(two: Two, address: str) -> None:
    one, other = two
    with closing(psycopg.connect(address)) as slow:
        slow.execute("SELECT pg_current_xact_id()")
        await shown(one.pins, "send")
        assert await other.state.caught_up()
        assert not await other.state.caught_up()


async def test_many_who_ask_at_once_share_a_look(two: Two, monkeypatch: pytest.MonkeyPatch) -> None:
    one, other = two
    await shown(one.pins, "send")
    looks: list[Any] = []
    look = other.state._news.look

    def counted(*given: Any) -> Any:
        looks.append(given)
        return look(*given)

    monkeypatch.setattr(other.state._news, "look", counted)
    assert True in await asyncio.gather(*(other.state.caught_up() for _ in range(50)))
    assert len(looks) <= 3


async def test_what_cannot_be_read_is_not_taken_for_read(two: Two, address: str) -> None:
    one, other = two
    await one.approvals.file(question())
    with closing(connect(address, application="test")) as owner:
        ((kept,),) = owner.execute("SELECT question FROM approvals").fetchall()
        owner.execute("UPDATE approvals SET question = 'another row|'")
        behind = other.state.behind_s
        for _ in range(2):
            with pytest.raises(Exception, match="cannot be opened"):
                await other.state.caught_up()
        assert other.state.behind_s > behind
        owner.execute("UPDATE approvals SET question = %s", (kept,))
    assert await other.state.caught_up()
    assert other.approvals.get(YES, now=NOW) is not None


async def test_a_closed_state_is_asked_nothing(address: str) -> None:
    async with shared(address) as state:
        pass
    with pytest.raises(AuditUnavailable):
        await state.caught_up()
