"""Whoever stops everything at one gateway has stopped it at all of them."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import closing

import pytest

from gateway.domain.premises import NOTHING, Premise
from gateway.errors import BadCommand, Changed, Denied, Stopped
from gateway.ports.stop import Standstill
from gateway.storage.postgres.board import PostgresBoard
from gateway.storage.postgres.connection import Connection
from gateway.storage.postgres.stop import PostgresStop
from tests.storage.postgres.shared import in_tray, record, replica, resting_on, with_runs

BY_ADA = Standstill(by="ada", at=1.0, note="an odd \0 thing")
BY_BOB = Standstill(by="bob", at=2.0, note="")


class Gateway:
    def __init__(self, board: PostgresBoard) -> None:
        self.board = board
        self.stop = PostgresStop(board)

    async def look(self) -> None:
        await self.board.hear("seat", decides="", prepared="")


def held(gateway: Gateway) -> Standstill:
    found = gateway.stop.holds
    assert found is not None
    return found


@pytest.fixture
async def two(address: str) -> AsyncIterator[tuple[Gateway, Gateway]]:
    with (
        closing(PostgresBoard(address, replica="one", key=b"k")) as one,
        closing(PostgresBoard(address, replica="other", key=b"k")) as other,
    ):
        yield Gateway(one), Gateway(other)


async def test_a_stop_at_one_holds_at_all_from_their_next_look_on(
    two: tuple[Gateway, Gateway],
) -> None:
    one, other = two
    await one.stop.put(BY_ADA)
    other.stop.require_none()
    await other.look()
    assert one.stop.holds == other.stop.holds == BY_ADA
    with pytest.raises(Stopped):
        other.stop.require_none()
    await other.stop.lift(held(other))
    other.stop.require_none()
    await one.look()
    one.stop.require_none()


async def test_a_stop_is_known_where_nobody_decides_by_a_policy(
    two: tuple[Gateway, Gateway],
) -> None:
    """A command that opens the stores by itself, while no gateway runs."""
    one, other = two
    await one.stop.put(BY_ADA)
    await other.board.look()
    assert PostgresStop(other.board).holds == other.stop.holds == BY_ADA
    await other.stop.lift(held(other))
    await one.look()
    one.stop.require_none()


async def test_no_record_of_a_call_is_kept_once_everything_is_stopped(
    two: tuple[Gateway, Gateway], address: str, owner: Connection
) -> None:
    """The other gateway has not looked."""
    one, _ = two
    with_runs(owner, "r")
    async with replica(address) as end:
        await end.ledger.put(record("before"), resting_on("r"), NOTHING)
        await one.stop.put(BY_ADA)
        with pytest.raises(Changed) as found:
            await end.ledger.put(record("after"), resting_on("r"), NOTHING)
        assert found.value.what == {Premise.POLICY}
        await end.ledger.append(record("what was sent before has ended"))
        await one.stop.lift(held(one))
        await end.ledger.put(record("again"), resting_on("r"), NOTHING)
    assert in_tray(owner) == ["before", "what was sent before has ended", "again"]


async def test_whoever_ends_a_stop_ends_no_later_one(two: tuple[Gateway, Gateway]) -> None:
    one, other = two
    await one.stop.put(BY_ADA)
    await other.look()
    await one.stop.put(BY_BOB)
    with pytest.raises(Denied, match="stopped again since you looked"):
        await other.stop.lift(held(other))
    assert other.stop.holds == BY_BOB
    await one.look()
    assert one.stop.holds == BY_BOB


async def test_nobody_ends_a_stop_that_was_heard_of_since_they_looked(
    two: tuple[Gateway, Gateway],
) -> None:
    one, other = two
    await one.stop.put(BY_ADA)
    await other.look()
    seen = held(other)
    await one.stop.put(BY_BOB)
    await other.look()
    for each in (one, other):
        with pytest.raises(Denied, match="stopped again since you looked"):
            await each.stop.lift(seen)
        await each.look()
        assert each.stop.holds == BY_BOB
    assert held(one).name == held(other).name != seen.name


async def test_what_is_stopped_again_while_a_stop_ends_stays_so(
    two: tuple[Gateway, Gateway], owner: Connection, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Also where nobody else can be told of it."""
    one, _ = two
    ask, ended, go_on = one.board._ask, asyncio.Event(), asyncio.Event()

    async def slowly(statement, values=()):
        found = await ask(statement, values)
        if "go_1" in statement:
            ended.set()
            await go_on.wait()
        return found

    await one.stop.put(BY_ADA)
    owner.execute("ALTER FUNCTION stop_1 RENAME TO gone")
    monkeypatch.setattr(one.board, "_ask", slowly)
    lift = asyncio.create_task(one.stop.lift(held(one)))
    await ended.wait()
    with pytest.raises(BadCommand, match="refused here"):
        await one.stop.put(BY_BOB)
    go_on.set()
    await lift
    await one.look()
    assert one.stop.holds == BY_BOB


async def test_a_look_that_began_before_a_stop_does_not_end_it(
    two: tuple[Gateway, Gateway], monkeypatch: pytest.MonkeyPatch
) -> None:
    one, _ = two
    ask, looked, go_on = one.board._ask, asyncio.Event(), asyncio.Event()

    async def slowly(statement, values=()):
        found = await ask(statement, values)
        if "hear_1" in statement:
            looked.set()
            await go_on.wait()
        return found

    monkeypatch.setattr(one.board, "_ask", slowly)
    look = asyncio.create_task(one.look())
    await looked.wait()
    await one.stop.put(BY_ADA)
    go_on.set()
    await look
    assert one.stop.holds == BY_ADA


async def test_what_nobody_else_could_be_told_holds_here_until_it_is_lifted_here(
    two: tuple[Gateway, Gateway], owner: Connection
) -> None:
    one, other = two
    owner.execute("ALTER FUNCTION stop_1 RENAME TO gone")
    with pytest.raises(BadCommand, match="refused here, and perhaps nowhere else"):
        await one.stop.put(BY_ADA)
    await one.look()
    assert one.stop.holds == BY_ADA
    await other.look()
    assert other.stop.holds is None
    owner.execute("ALTER FUNCTION go_1 RENAME TO gone_as_well")
    with pytest.raises(BadCommand, match="stay refused"):
        await one.stop.lift(held(one))
    assert one.stop.holds == BY_ADA
    owner.execute("ALTER FUNCTION gone_as_well RENAME TO go_1")
    await one.stop.lift(held(one))
    assert one.stop.holds is None


async def test_what_cannot_be_read_stops_everything(
    two: tuple[Gateway, Gateway], owner: Connection
) -> None:
    one, _ = two
    owner.execute("UPDATE in_force SET stopped = '?'")
    await one.look()
    with pytest.raises(Stopped):
        one.stop.require_none()
    await one.stop.lift(held(one))
    one.stop.require_none()
