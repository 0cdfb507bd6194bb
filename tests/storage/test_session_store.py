"""Sessions in front of all servers: that they have ended, and what they follow, outlives a restart."""

from collections.abc import AsyncIterator
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path

import pytest

from gateway.errors import LimitExceeded
from gateway.ports.front import SessionStore
from gateway.storage import own_sessions
from gateway.storage.connection import open_reader
from gateway.storage.database import DATABASE
from gateway.storage.own_sessions import MemorySessionStore
from gateway.storage.store import Store
from gateway.wire.own_session import LONGEST_S


@dataclass
class Time:
    now: float = 1_800_000_000.0


@pytest.fixture
def time() -> Time:
    return Time()


@pytest.fixture
async def store(tmp_path: Path, time: Time) -> AsyncIterator[Store]:
    opened = await Store.open(tmp_path / "var", clock=lambda: time.now)
    yield opened
    await opened.close()


@pytest.fixture(params=["sqlite", "memory"])
def kept(request: pytest.FixtureRequest, store: Store) -> SessionStore:
    return store.sessions if request.param == "sqlite" else MemorySessionStore(b"k" * 32)


def rows(store: Store, table: str) -> int:
    with closing(open_reader(store.data_dir / DATABASE)) as connection:
        (count,) = connection.execute(f"SELECT count(*) FROM {table}").fetchone()
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


async def test_nobody_makes_it_forget_what_others_have_ended(
    kept: SessionStore, store: Store, time: Time, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(own_sessions, "MOST", 4)
    monkeypatch.setattr(own_sessions, "MOST_ENDED_OF_PRINCIPAL", 2)
    for who, session in (("bob", "b"), *(("alice", f"a{n}") for n in range(9))):
        time.now += 1
        await kept.end(who, session)
    assert kept.has_ended("bob", "b")
    assert [n for n in range(9) if kept.has_ended("alice", f"a{n}")] == [7, 8]
    assert kept is not store.sessions or rows(store, "front_sessions_ended") == 3


async def test_a_restart_forgets_nothing(tmp_path: Path, time: Time) -> None:
    first = await Store.open(tmp_path / "var", clock=lambda: time.now)
    await first.sessions.subscribe("alice", "s", "b")
    time.now += 1
    await first.sessions.subscribe("alice", "s", "a")
    await first.sessions.end("alice", "t")
    await first.close()
    second = await Store.open(tmp_path / "var", clock=lambda: time.now)
    assert second.sessions.subscribed("alice", "s") == ("b", "a")
    assert second.sessions.has_ended("alice", "t")
    await second.close()


async def test_what_outlives_every_session_is_pruned(store: Store, time: Time) -> None:
    await store.sessions.subscribe("alice", "s", "a")
    await store.sessions.end("alice", "t")
    time.now += LONGEST_S + 1
    await store.sessions.subscribe("alice", "u", "a")
    await store.sessions.end("alice", "v")
    assert store.sessions.subscribed("alice", "s") == ()
    assert not store.sessions.has_ended("alice", "t")
    assert (rows(store, "front_subscriptions"), rows(store, "front_sessions_ended")) == (1, 1)


async def test_no_session_stands_in_the_database(store: Store) -> None:
    session = "es.6b49d200.a-nonce-of-a-session"
    await store.sessions.subscribe("alice", session, "a")
    await store.sessions.end("alice", session)
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
    tmp_path: Path, time: Time, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(own_sessions, "MOST_OF_PRINCIPAL", 1)
    first = await Store.open(tmp_path / "var", clock=lambda: time.now)
    await first.sessions.subscribe("alice", "s", "a")
    await first.close()
    second = await Store.open(tmp_path / "var", clock=lambda: time.now)
    with pytest.raises(LimitExceeded):
        await second.sessions.subscribe("alice", "t", "a")
    await second.sessions.subscribe("bob", "t", "a")
    await second.close()


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
