"""Stopping everything and letting it go on: who may, and what is on record."""

from pathlib import Path

import pytest

from gateway.admin.stop import StopDesk
from gateway.domain.audit import AuditRecord, LogEntry
from gateway.errors import AuditUnavailable, BadCommand, Denied, Forbidden, NotFound
from gateway.ports.stop import Standstill
from gateway.storage.stop import Stop
from tests.admin.world import ADMIN, APPROVER, AUDITOR, USER, World, clock


@pytest.fixture
def world() -> World:
    return World()


@pytest.fixture
def stop(tmp_path: Path) -> Stop:
    return Stop(tmp_path)


@pytest.fixture
def desk(world: World, stop: Stop) -> StopDesk:
    return StopDesk(stop, world.journal, clock=clock)


async def test_an_approver_stops_everything_and_an_admin_lets_it_go_on(
    desk: StopDesk, stop: Stop, world: World
) -> None:
    row = await desk.stop(APPROVER, note="a token is public")
    assert (row["stopped"], row["by"], row["note"]) == (True, APPROVER.name, "a token is public")
    assert stop.holds is not None
    assert await desk.state(USER) == row
    gone = await desk.go(ADMIN, standstill=row["standstill"], note="replaced")
    assert (gone["stopped"], gone["standstill"]) == (False, None)
    stop.require_none()
    records = world.log.records
    told = [tuple(one.fields[name] for name in ("method", "code", "principal")) for one in records]
    assert told == [
        ("policy.stop", "all_stopped", APPROVER.name),
        ("policy.go", "all_go", ADMIN.name),
    ]
    notes = [one.fields["reasons"][1]["message"] for one in records]
    assert notes == ["a token is public", "replaced"]


@pytest.mark.parametrize("person", [USER, AUDITOR])
async def test_nobody_else_does_either(desk: StopDesk, stop: Stop, person: object) -> None:
    with pytest.raises(Forbidden):
        await desk.stop(person, note="x")  # type: ignore[arg-type]
    assert stop.holds is None
    row = await desk.stop(ADMIN, note="x")
    with pytest.raises(Forbidden):
        await desk.go(person, standstill=row["standstill"], note="x")  # type: ignore[arg-type]
    assert stop.holds is not None


async def test_both_need_a_note(desk: StopDesk) -> None:
    with pytest.raises(BadCommand):
        await desk.stop(ADMIN, note=" ")
    row = await desk.stop(ADMIN, note="x")
    with pytest.raises(BadCommand):
        await desk.go(ADMIN, standstill=row["standstill"], note=" ")


async def test_a_second_stop_takes_the_place_of_the_first(desk: StopDesk, stop: Stop) -> None:
    await desk.stop(APPROVER, note="one")
    assert (await desk.stop(ADMIN, note="two"))["note"] == "two"
    assert stop.holds is not None


async def test_where_nothing_is_stopped_nothing_goes_on(desk: StopDesk) -> None:
    with pytest.raises(NotFound):
        await desk.go(ADMIN, standstill="", note="x")


async def test_what_cannot_be_recorded_changes_nothing(
    desk: StopDesk, stop: Stop, world: World
) -> None:
    row = await desk.stop(ADMIN, note="x")
    world.log.failure = "disk full"
    with pytest.raises(AuditUnavailable):
        await desk.go(ADMIN, standstill=row["standstill"], note="y")
    assert stop.holds is not None


async def test_nobody_ends_a_stop_that_came_after_they_looked(
    desk: StopDesk, stop: Stop, world: World
) -> None:
    """What a page has shown may be long ago."""
    shown = await desk.stop(APPROVER, note="a token is public")
    later = await desk.stop(ADMIN, note="we are being robbed")
    for seen in (shown["standstill"], ""):
        with pytest.raises(Denied, match="stopped again since you looked"):
            await desk.go(APPROVER, standstill=seen, note="replaced")
        assert await desk.state(USER) == later
    verdicts = [one.fields["verdict"] for one in world.log.records]
    assert verdicts == ["allow", "allow", "allow", "deny", "allow", "deny"]


async def test_nobody_ends_a_stop_that_came_while_theirs_was_written_down(
    desk: StopDesk, stop: Stop, world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    shown = await desk.stop(APPROVER, note="a token is public")
    append = world.log.append

    async def meanwhile(record: AuditRecord) -> LogEntry:
        entry = await append(record)
        if record.fields["code"] == "all_go":
            await stop.put(Standstill(by="bob", at=2.0, note="we are being robbed"))
        return entry

    monkeypatch.setattr(world.log, "append", meanwhile)
    with pytest.raises(Denied, match="stopped again since you looked"):
        await desk.go(APPROVER, standstill=shown["standstill"], note="replaced")
    assert (desk.row()["stopped"], desk.row()["note"]) == (True, "we are being robbed")
