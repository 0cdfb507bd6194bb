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
    await kept.subscribe("alice", "s", "a", person="alice")
    await kept.subscribe("alice", "s", "b", person="alice")
    await kept.subscribe("alice", "s", "a", person="alice")
    assert kept.subscribed("alice", "s") == ("a", "b")
    assert kept.subscribed("alice", "t") == kept.subscribed("bob", "s") == ()
    await kept.unsubscribe("alice", "s", "a", person="alice")
    await kept.unsubscribe("alice", "s", "never", person="alice")
    await kept.unsubscribe("bob", "s", "b", person="bob")
    assert kept.subscribed("alice", "s") == ("b",)


async def test_a_session_that_has_ended_follows_nothing(kept: SessionStore) -> None:
    await kept.subscribe("alice", "s", "a", person="alice")
    await kept.end("alice", "s", person="alice")
    await kept.end("alice", "s", person="alice")
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
        await kept.subscribe("alice", "s", uri, person="alice")
    with pytest.raises(LimitExceeded):
        await kept.subscribe("alice", "s", "c", person="alice")
    await kept.subscribe("alice", "t", "a", person="alice")
    with pytest.raises(LimitExceeded):
        await kept.subscribe("alice", "u", "a", person="alice")
    await kept.end("alice", "s", person="alice")
    await kept.subscribe("alice", "u", "a", person="alice")


async def test_of_those_that_have_ended_the_oldest_are_forgotten(
    kept: SessionStore, time: Time, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(own_sessions, "MOST", 2)
    for session in ("s", "t", "u"):
        time.now += 1
        await kept.end("alice", session, person="alice")
    assert [kept.has_ended("alice", s) for s in ("s", "t", "u")] == [False, True, True]


async def test_what_others_have_ended_stays_in_the_tables(
    place: Place, time: Time, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(own_sessions, "MOST_ENDED_OF_PERSON", 2)
    kept = sessions(place, time)
    for who, session in (("bob", "b"), *(("alice", f"a{n}") for n in range(9))):
        time.now += 1
        await kept.end(who, session, person=who)
    assert rows(place, "front_sessions_ended") == 3


async def test_nobody_makes_it_forget_what_others_have_ended(
    kept: SessionStore, time: Time, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(own_sessions, "MOST", 4)
    monkeypatch.setattr(own_sessions, "MOST_ENDED_OF_PERSON", 2)
    for who, session in (("bob", "b"), *(("alice", f"a{n}") for n in range(9))):
        time.now += 1
        await kept.end(who, session, person=who)
    assert kept.has_ended("bob", "b")
    assert [n for n in range(9) if kept.has_ended("alice", f"a{n}")] == [7, 8]


async def test_a_restart_forgets_nothing(place: Place, time: Time) -> None:
    first = sessions(place, time)
    await first.subscribe("alice", "s", "b", person="alice")
    time.now += 1
    await first.subscribe("alice", "s", "a", person="alice")
    await first.end("alice", "t", person="alice")
    second = sessions(place, time)
    assert second.subscribed("alice", "s") == ("b", "a")
    assert second.has_ended("alice", "t")


async def test_what_outlives_every_session_is_pruned(place: Place, time: Time) -> None:
    kept = sessions(place, time)
    await kept.subscribe("alice", "s", "a", person="alice")
    await kept.end("alice", "t", person="alice")
    time.now += LONGEST_S + 1
    await kept.subscribe("alice", "u", "a", person="alice")
    await kept.end("alice", "v", person="alice")
    assert kept.subscribed("alice", "s") == ()
    assert not kept.has_ended("alice", "t")
    assert (rows(place, "front_subscriptions"), rows(place, "front_sessions_ended")) == (1, 1)


async def test_no_session_stands_in_the_database(tmp_path: Path) -> None:
    store = await Store.open(tmp_path / "var", clock=lambda: 1.0)
    session = "es.6b49d200.a-nonce-of-a-session"
    await store.sessions.subscribe("alice", session, "a", person="alice")
    await store.sessions.end("alice", session, person="alice")
    await store.close()
    for file in store.data_dir.iterdir():
        if file.name.startswith(DATABASE):
            assert b"a-nonce-of-a-session" not in file.read_bytes()


async def test_nobody_takes_the_room_of_all_sessions(
    kept: SessionStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(own_sessions, "MOST_OF_PERSON", 2)
    await kept.subscribe("alice", "s", "a", person="alice")
    await kept.subscribe("alice", "t", "a", person="alice")
    with pytest.raises(LimitExceeded):
        await kept.subscribe("alice", "u", "a", person="alice")
    await kept.subscribe("alice", "t", "a", person="alice")
    await kept.subscribe("bob", "u", "a", person="bob")
    await kept.unsubscribe("alice", "t", "a", person="alice")
    await kept.subscribe("alice", "u", "a", person="alice")
    await kept.end("alice", "u", person="alice")
    await kept.subscribe("alice", "v", "a", person="alice")


async def test_whose_room_is_taken_outlives_a_restart(
    place: Place, time: Time, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(own_sessions, "MOST_OF_PERSON", 1)
    await sessions(place, time).subscribe("alice", "s", "a", person="alice")
    second = sessions(place, time)
    with pytest.raises(LimitExceeded):
        await second.subscribe("alice", "t", "a", person="alice")
    await second.subscribe("bob", "t", "a", person="bob")


async def test_what_is_followed_is_bounded_in_bytes(
    kept: SessionStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(own_sessions, "MOST_OCTETS", 800)
    await kept.subscribe("alice", "s", "a" * 60, person="alice")
    with pytest.raises(LimitExceeded):
        await kept.subscribe("alice", "t", "b" * 60, person="alice")
    await kept.subscribe("alice", "s", "a" * 60, person="alice")
    await kept.unsubscribe("alice", "s", "a" * 60, person="alice")
    for number in range(8):
        await kept.subscribe(f"p{number}", "s", "c" * 100, person=f"p{number}")
    with pytest.raises(LimitExceeded):
        await kept.subscribe("bob", "s", "d", person="bob")


async def test_one_persons_clients_have_one_share_together(
    kept: SessionStore, time: Time, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(own_sessions, "MOST_OF_PERSON", 3)
    monkeypatch.setattr(own_sessions, "MOST_OCTETS", 800)
    monkeypatch.setattr(own_sessions, "MOST_ENDED_OF_PERSON", 2)
    clients = [f"mallory|c{number}" for number in range(4)]
    await kept.subscribe(clients[0], "s", "a" * 60, person="mallory")
    with pytest.raises(LimitExceeded):
        await kept.subscribe(clients[1], "s", "a" * 60, person="mallory")
    for one in clients[1:3]:
        await kept.subscribe(one, "s", "a", person="mallory")
    with pytest.raises(LimitExceeded):
        await kept.subscribe(clients[3], "s", "a", person="mallory")
    await kept.subscribe("alice", "s", "a", person="alice")
    await kept.end("alice", "s", person="alice")
    for one in clients:
        time.now += 1
        await kept.end(one, "s", person="mallory")
    assert [kept.has_ended(one, "s") for one in ("alice", *clients)] == [
        True,
        False,
        False,
        True,
        True,
    ]


async def test_whose_share_it_is_outlives_a_restart(
    place: Place, time: Time, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(own_sessions, "MOST_OF_PERSON", 1)
    await sessions(place, time).subscribe("mallory|c0", "s", "a", person="mallory")
    with pytest.raises(LimitExceeded):
        await sessions(place, time).subscribe("mallory|c1", "s", "a", person="mallory")


def filed_before(kept: MemorySessionStore, monkeypatch: pytest.MonkeyPatch) -> None:
    """Have sessions be filed as by an earlier version: under their client."""
    own = kept._hashed
    monkeypatch.setattr(
        kept, "_hashed", lambda principal, session, person: own(principal, session, principal)
    )


async def test_what_an_earlier_version_filed_under_a_client_is_found(
    place: Place, time: Time, monkeypatch: pytest.MonkeyPatch
) -> None:
    before = sessions(place, time)
    filed_before(before, monkeypatch)
    for uri in ("a", "b"):
        await before.subscribe("alice|c0", "s", uri, person="alice")
    await before.end("alice|c0", "t", person="alice")
    kept = sessions(place, time)
    assert kept.has_ended("alice|c0", "t")
    assert kept.subscribed("alice|c0", "s") == ("a", "b")
    await kept.unsubscribe("alice|c0", "s", "a", person="alice")
    assert sessions(place, time).subscribed("alice|c0", "s") == ("b",)
    await kept.end("alice|c0", "s", person="alice")
    again = sessions(place, time)
    assert again.has_ended("alice|c0", "s")
    assert (again.subscribed("alice|c0", "s"), rows(place, "front_subscriptions")) == ((), 0)


async def test_one_that_follows_no_more_has_ended_still(kept: SessionStore) -> None:
    await kept.end("alice", "s", person="alice")
    await kept.subscribe("alice", "s", "a", person="alice")  # was under way as it ended
    await kept.unsubscribe("alice", "s", "a", person="alice")
    assert kept.has_ended("alice", "s")


async def test_of_what_is_forgotten_nothing_is_filed(
    kept: SessionStore, time: Time, monkeypatch: pytest.MonkeyPatch
) -> None:
    await kept.subscribe("alice", "s", "a", person="alice")
    await kept.unsubscribe("alice", "s", "a", person="alice")
    monkeypatch.setattr(own_sessions, "MOST_ENDED_OF_PERSON", 1)
    for session in ("s", "t"):
        time.now += 1
        await kept.end("alice", session, person="alice")
    assert isinstance(kept, MemorySessionStore)
    assert len(kept._filed) == len(kept._ended) == 1
