"""A standby takes over: what was acknowledged is there where it had to confirm, and else its lack is found."""

import asyncio
import time
from collections.abc import Iterator, Mapping
from contextlib import closing
from typing import Any

import pytest

from gateway.errors import AuditUnavailable
from gateway.storage.postgres.base import made
from gateway.storage.postgres.connection import connect
from gateway.storage.postgres.lane import Keeps
from tests.standby import Replicated, replicated
from tests.storage.postgres.shared import PATIENCE_S, Replica, in_tray, record, replica

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
