"""A standby takes over: what was acknowledged is there where it had to confirm, and else its lack is found."""

import asyncio
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import closing, contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from gateway.domain.flow import RunId
from gateway.domain.premises import NOTHING
from gateway.errors import AuditUnavailable, Changed
from gateway.storage.identity.store import IdentityStores
from gateway.storage.postgres.base import made
from gateway.storage.postgres.connection import connect
from gateway.storage.postgres.identity import open_identity
from gateway.storage.postgres.lane import Keeps
from gateway.storage.postgres.stores import PostgresStores
from tests.standby import Replicated, replicated
from tests.storage.postgres.shared import (
    PATIENCE_S,
    Replica,
    in_tray,
    record,
    replica,
    resting_on,
    with_runs,
)
from tests.storage.postgres.test_joining import joined
from tests.storage.suite import NOW

PATIENT: Mapping[str, Any] = {"deadline_s": 20.0}
HURRIED: Mapping[str, Any] = {"deadline_s": 5.0}


@pytest.fixture
def both() -> Iterator[Replicated]:
    with replicated() as found:
        yield found


def database(both: Replicated) -> str:
    address = both.primary.fresh()
    made(address)
    return both.address(address.partition("@/")[2].partition("?")[0])


async def recorded(made: Replica, name: str) -> bool:
    try:
        await made.ledger.append(record(name))
    except AuditUnavailable:
        return False
    return True


async def until(made: Replica, name: str) -> None:
    patience = time.monotonic() + PATIENCE_S
    while not await recorded(made, name):
        assert time.monotonic() < patience, made.lanes.problem
        await asyncio.sleep(0.05)


async def test_what_a_synchronous_standby_confirmed_survives_its_primary(both: Replicated) -> None:
    address = database(both)
    both.names("*")
    async with replica(address, keeps=Keeps.REPLICATED, **PATIENT) as made:
        told = [f"e{n}" for n in range(40) if await recorded(made, f"e{n}")]
        assert len(told) == 40
        with both.cut():
            late = asyncio.create_task(recorded(made, "late"))
            both.fail_over()
            assert not await late
        with closing(connect(address, application="test")) as owner:
            assert set(in_tray(owner)) == set(told)
            # Who takes over has no standby of its own yet.
            assert not await recorded(made, "too early")
            assert "no standby is synchronous" in made.lanes.problem


async def test_what_no_standby_confirmed_is_not_acknowledged(both: Replicated) -> None:
    """Also where it is in the primary, as the wait for the standby was ended with its connection."""
    address = database(both)
    both.names("*")
    async with replica(address, **HURRIED) as made:
        await until(made, "before")
        with both.cut():
            told = asyncio.create_task(recorded(made, "here alone"))
            while not await asyncio.to_thread(both.ended_waiting):
                assert not told.done()
            assert not await told
        await until(made, "after")


async def test_without_a_synchronous_standby_nothing_is_recorded_that_is_to_be_replicated(
    both: Replicated,
) -> None:
    address = database(both)
    with pytest.raises(AuditUnavailable):
        async with replica(address, keeps=Keeps.REPLICATED, **PATIENT):
            pass
    both.names("*")
    async with replica(address, keeps=Keeps.REPLICATED, **PATIENT) as made:
        assert await recorded(made, "one")
        both.names("")
        assert not await recorded(made, "two")
        assert "no standby is synchronous" in made.lanes.problem
        both.names("*")
        await until(made, "three")


async def test_what_an_asynchronous_standby_lacks_is_missed_and_nothing_is_decided_on_it(
    both: Replicated,
) -> None:
    address = database(both)
    async with replica(address, **PATIENT) as made:
        await until(made, "kept")
        both.streams()
        with both.cut():
            assert await recorded(made, "lost")
            both.fail_over()
        for n in range(3):
            assert not await recorded(made, f"after {n}")
        assert "lacks what it had confirmed" in made.lanes.problem
        with closing(connect(address, application="test")) as owner:
            assert "lost" not in in_tray(owner)
    async with replica(address, **PATIENT) as again:  # whoever starts it anew has seen that
        await until(again, "anew")


@contextmanager
def people(address: str) -> Iterator[IdentityStores]:
    found = open_identity(address, clock=lambda: NOW)
    with closing(found):
        yield found


def version(made: Replica | PostgresStores, run: str) -> int:
    found = made.runs.find(RunId(run))
    assert found is not None
    return found.run.version


async def shown(holds: Callable[[], bool]) -> None:
    patience = time.monotonic() + PATIENCE_S
    while not holds():
        assert time.monotonic() < patience
        await asyncio.sleep(0.05)


async def test_what_was_revoked_since_it_took_over_ends_where_what_is_gone_had_been_followed(
    both: Replicated,
) -> None:
    """The number that had stood for what is gone stands for nothing else: one that follows sees both."""
    address = database(both)
    with people(address) as one, people(address) as other:
        with closing(connect(address, application="test")) as owner:
            with_runs(owner, "r")
        both.streams()
        with both.cut():
            other.revocations.revoke_token("gone", until=NOW + 60)
            assert one.database.follow()
            assert one.revocations.cover("", "gone")
            both.fail_over()
        with people(address) as third:
            third.revocations.revoke_token("later", until=NOW + 60)
        async with replica(address, **PATIENT) as made:
            stale = replace(resting_on("r"), people=one.database.people)
            with pytest.raises(Changed, match="people"):
                await made.ledger.put(record("stale"), stale, NOTHING)
            assert one.database.follow()
            assert one.revocations.cover("", "later")
            assert not one.revocations.cover("", "gone")
            seen = replace(stale, people=one.database.people)
            assert (await made.ledger.put(record("seen"), seen, NOTHING)).id == "seen"


def raised(address: str, run: str) -> None:
    """Have another gateway raise a run, and begin one, and acknowledge both."""
    with closing(connect(address, application="test")) as owner:
        owner.execute("UPDATE runs SET integrity = 0, version = version + 2 WHERE id = %s", (run,))
        owner.execute(
            "INSERT INTO runs (id, owner, integrity, confidentiality, roamed) VALUES ('new', 'n', 1, 0, true)"
        )


async def test_calls_go_on_in_a_run_whose_raise_is_gone_where_that_had_been_followed(
    both: Replicated,
) -> None:
    """What memory shows of it is later than what the database has, and was never so for it."""
    address = database(both)
    with closing(connect(address, application="test")) as owner:
        with_runs(owner, "r")
    async with replica(address, **PATIENT) as made:
        await until(made, "before")
        both.streams()
        with both.cut():
            raised(address, "r")
            for run in ("r", "new"):
                await made.runs.look_again(RunId(run))
            assert version(made, "r") == 2
            both.fail_over()
        await until(made, "after")
        with pytest.raises(Changed, match="run"):
            await made.ledger.put(record("stale"), resting_on("r", 2, people=None), NOTHING)
        seen = resting_on("r", version(made, "r"), people=None)
        assert (await made.ledger.put(record("seen"), seen, NOTHING)).id == "seen"
        with pytest.raises(Changed, match="run"):
            await made.ledger.put(record("lost"), resting_on("new", people=None), NOTHING)
        assert [state.run.id for state in made.runs.all() if state.live] == [RunId("r")]


async def test_a_look_at_a_server_that_took_over_shows_what_it_has_and_nothing_later(
    both: Replicated, tmp_path: Path
) -> None:
    address = database(both)
    with closing(connect(address, application="test")) as owner:
        with_runs(owner, "r")
    async with joined(address, tmp_path) as stores:
        both.streams()
        with both.cut():
            raised(address, "r")
            await shown(lambda: version(stores, "r") == 2)
            both.fail_over()
        await shown(lambda: version(stores, "r") == 0)
