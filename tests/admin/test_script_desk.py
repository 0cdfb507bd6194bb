"""What people see of programs, and how they end one."""

from typing import Any

import pytest

from gateway.admin.scripts import ScriptDesk
from gateway.domain.audit import RecordKind
from gateway.domain.scripts import Script, ScriptId
from gateway.errors import Denied, Forbidden, NotFound
from gateway.ports.scripts import Parked
from tests.admin.world import ADMIN, APPROVER, AUDITOR, NOW, STRANGER, USER, World
from tests.storage.memory_calls import MemoryScriptStore

ID = ScriptId("s_1")


def script(name: str = "s_1", **changed: Any) -> Script:
    given: dict[str, Any] = {
        "id": ScriptId(name),
        "principal": "issuer|alice|host",
        "sha256": "ab" * 32,
        "grants": (),
        "most": None,
        "parent": "d_1",
        "began": NOW - 5,
        "expires_at": NOW + 60,
        "run": "r_1",
    }
    return Script(**{**given, **changed})


class Desk(ScriptDesk):
    """A desk whose journal and programs can be looked at."""

    def __init__(self) -> None:
        self.world = World()
        self.scripts = MemoryScriptStore()
        super().__init__(self.scripts, self.world.journal, clock=lambda: NOW)


@pytest.fixture
async def desk() -> Desk:
    made = Desk()
    await made.scripts.begin(script())
    await made.scripts.begin(script("s_0", began=NOW - 9, grants=None))
    await made.scripts.begin(script("s_late", expires_at=NOW))
    await made.scripts.park(Parked(script=script(), snapshot=b"state"))
    return made


async def test_programs_are_listed_with_whose_they_are_and_none_of_their_text(desk: Desk) -> None:
    first, second = await desk.list(AUDITOR)
    assert (first["script"], first["waits"], first["grants"]) == ("s_0", False, None)
    assert second == {
        "script": "s_1",
        "principal": "issuer|alice|host",
        "run": "r_1",
        "sha256": "ab" * 32,
        "waits": True,
        "grants": 0,
        "age_s": 5,
        "ends_in_s": 60,
    }


async def test_a_program_is_ended_and_that_is_on_record_before(desk: Desk) -> None:
    assert await desk.revoke(APPROVER, script="s_1", note="runs wild") == {
        "script": "s_1",
        "revoked": True,
    }
    ((kind, fields),) = [(one.kind, one.fields) for one in desk.world.log.records]
    assert kind is RecordKind.RUN
    assert (fields["method"], fields["code"], fields["run"]) == ("runs.revoke", "revoked", "r_1")
    assert (fields["parent"], fields["script_sha256"]) == ("d_1", "ab" * 32)
    assert [one["message"] for one in fields["reasons"]] == ["s_1", "runs wild"]
    assert desk.scripts.find(ID, now=NOW) is None
    assert not await desk.scripts.take(ID, None, now=NOW)
    assert await desk.scripts.unpark(ID, "issuer|alice|host", now=NOW) is None


async def test_what_has_ended_cannot_be_ended_again(desk: Desk) -> None:
    for name in ("s_none", "s_late"):
        with pytest.raises(NotFound):
            await desk.revoke(ADMIN, script=name)
    live = desk.scripts.live(now=NOW)
    await desk.scripts.end(ID)
    desk.scripts.live = lambda *, now: live  # type: ignore[method-assign]
    with pytest.raises(Denied):
        await desk.revoke(ADMIN, script="s_1")
    assert [one.fields["verdict"] for one in desk.world.log.records] == ["allow", "deny"]


async def test_who_may_not_end_programs_ends_none(desk: Desk) -> None:
    for person in (USER, AUDITOR, STRANGER):
        with pytest.raises(Forbidden):
            await desk.revoke(person, script="s_1")
    for person in (USER, STRANGER):
        with pytest.raises(Forbidden):
            await desk.list(person)
    assert desk.scripts.find(ID, now=NOW) is not None
    assert desk.world.log.records == []
