"""Sessions in front of all servers: that they have ended, and what they follow, outlives a restart."""

from collections.abc import AsyncIterator
from dataclasses import dataclass
from pathlib import Path

import pytest

from gateway.errors import LimitExceeded
from gateway.ports.front import SessionStore
from gateway.storage import own_sessions
from gateway.storage.database import DATABASE
from gateway.storage.own_sessions import DurableSessionStore, MemorySessionStore
from gateway.storage.store import Store
from gateway.wire.own_session import LONGEST_S
from tests.storage.placed import PLACES, Place, placed


@dataclass
class Time:
    now: float = 1_800_000_000.0


@pytest.fixture
def time() -> Time:
    return Time()


@pytest.fixture(params=[*PLACES, "memory"])
async def kept(
    request: pytest.FixtureRequest, tmp_path: Path, time: Time
) -> AsyncIterator[SessionStore]:
    if request.param == "memory":
        yield MemorySessionStore(b"k" * 32)
        return
    async with placed(request, tmp_path) as place:
        yield sessions(place, time)


def sessions(place: Place, time: Time) -> DurableSessionStore:
    with place.reading() as tables:
        return DurableSessionStore(place.writer, tables, key=b"k" * 32, clock=lambda: time.now)


def rows(place: Place, table: str) -> int:
    ((count,),) = place.rows(f"SELECT count(*) FROM {table}")
    return int(count)


async def test_what_a_session_follows_is_its_own(kept: SessionStore) -> None:
    await kept.subscribe("alice", "s", "a")
    await kept.subscribe("alice", "s", "b")
    await kept.subscribe("alice", "s", "a")
    assert kept.subscribed("alice", "s") == ("a", "b")
    assert kept.subscribed("alice", "t") == kept.subscribed("bob", "s") == ()
    await kept.unsubscribe("alice", "s", "a")
    await kept.unsubscribe("alice", "s", "never")
    await kept.unsubscribe("bob", "s", "b")
    assert kept.subscribed("alice", "s") == ("b",)


async def test_a_session_that_has_ended_follows_nothing(kept: SessionStore) -> None:
    await kept.subscribe("alice", "s", "a")
    await kept.end("alice", "s")
    await kept.end("alice", "s")
    assert kept.subscribed("alice", "s") == ()
    assert kept.has_ended("alice", "s")
    assert not kept.has_ended("alice", "t")
    assert not kept.has_ended("bob", "s")


async def test_there_is_room_for_so_many_and_no_more(
    kept: SessionStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(own_sessions, "MOST_OF_ONE", 2)
    monkeypatch.setattr(own_sessions, "MOST", 3)
    for uri in ("a", "b", "a"):
        await kept.subscribe("alice", "s", uri)
    with pytest.raises(LimitExceeded):
        await kept.subscribe("alice", "s", "c")
    await kept.subscribe("alice", "t", "a")
    with pytest.raises(LimitExceeded):
        await kept.subscribe("alice", "u", "a")
    await kept.end("alice", "s")
    await kept.subscribe("alice", "u", "a")


async def test_of_those_that_have_ended_the_oldest_are_forgotten(
    kept: SessionStore, time: Time, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(own_sessions, "MOST", 2)
    for session in ("s", "t", "u"):
        time.now += 1
        await kept.end("alice", session)
    assert [kept.has_ended("alice", s) for s in ("s", "t", "u")] == [False, True, True]


async def test_what_others_have_ended_stays_in_the_tables(
    place: Place, time: Time, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(own_sessions, "MOST_ENDED_OF_PRINCIPAL", 2)
    kept = sessions(place, time)
    for who, session in (("bob", "b"), *(("alice", f"a{n}") for n in range(9))):
        time.now += 1
        await kept.end(who, session)
    assert rows(place, "front_sessions_ended") == 3


async def test_nobody_makes_it_forget_what_others_have_ended(
    kept: SessionStore, time: Time, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(own_sessions, "MOST", 4)
    monkeypatch.setattr(own_sessions, "MOST_ENDED_OF_PRINCIPAL", 2)
    for who, session in (("bob", "b"), *(("alice", f"a{n}") for n in range(9))):
        time.now += 1
        await kept.end(who, session)
    assert kept.has_ended("bob", "b")
    assert [n for n in range(9) if kept.has_ended("alice", f"a{n}")] == [7, 8]


async def test_a_restart_forgets_nothing(place: Place, time: Time) -> None:
    first = sessions(place, time)
    await first.subscribe("alice", "s", "b")
    time.now += 1
    await first.subscribe("alice", "s", "a")
    await first.end("alice", "t")
    second = sessions(place, time)
    assert second.subscribed("alice", "s") == ("b", "a")
    assert second.has_ended("alice", "t")


async def test_what_outlives_every_session_is_pruned(place: Place, time: Time) -> None:
    kept = sessions(place, time)
    await kept.subscribe("alice", "s", "a")
    await kept.end("alice", "t")
    time.now += LONGEST_S + 1
    await kept.subscribe("alice", "u", "a")
    await kept.end("alice", "v")
    assert kept.subscribed("alice", "s") == ()
    assert not kept.has_ended("alice", "t")
    assert (rows(place, "front_subscriptions"), rows(place, "front_sessions_ended")) == (1, 1)


async def test_no_session_stands_in_the_database(tmp_path: Path) -> None:
    store = await Store.open(tmp_path / "var", clock=lambda: 1.0)
    session = "es.6b49d200.a-nonce-of-a-session"
    await store.sessions.subscribe("alice", session, "a")
    await store.sessions.end("alice", session)
    await store.close()
    for file in store.data_dir.iterdir():
        if file.name.startswith(DATABASE):
            assert b"a-nonce-of-a-session" not in file.read_bytes()


async def test_nobody_takes_the_room_of_all_sessions(
    kept: SessionStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(own_sessions, "MOST_OF_PRINCIPAL", 2)
    await kept.subscribe("alice", "s", "a")
    await kept.subscribe("alice", "t", "a")
    with pytest.raises(LimitExceeded):
        await kept.subscribe("alice", "u", "a")
    await kept.subscribe("alice", "t", "a")
    await kept.subscribe("bob", "u", "a")
    await kept.unsubscribe("alice", "t", "a")
    await kept.subscribe("alice", "u", "a")
    await kept.end("alice", "u")
    await kept.subscribe("alice", "v", "a")


async def test_whose_room_is_taken_outlives_a_restart(
    place: Place, time: Time, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(own_sessions, "MOST_OF_PRINCIPAL", 1)
    await sessions(place, time).subscribe("alice", "s", "a")
    second = sessions(place, time)
    with pytest.raises(LimitExceeded):
        await second.subscribe("alice", "t", "a")
    await second.subscribe("bob", "t", "a")


async def test_what_is_followed_is_bounded_in_bytes(
    kept: SessionStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(own_sessions, "MOST_OCTETS", 800)
    await kept.subscribe("alice", "s", "a" * 60)
    with pytest.raises(LimitExceeded):
        await kept.subscribe("alice", "t", "b" * 60)
    await kept.subscribe("alice", "s", "a" * 60)
    await kept.unsubscribe("alice", "s", "a" * 60)
    for number in range(8):
        await kept.subscribe(f"p{number}", "s", "c" * 100)
    with pytest.raises(LimitExceeded):
        await kept.subscribe("bob", "s", "d")
