"""Calls whose answer is late, in the database: what of them is known after a restart, and how many."""

from collections.abc import AsyncIterator
from contextlib import closing
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from gateway.domain.audit import AuditRecord, RecordKind
from gateway.domain.flow import RunId
from gateway.domain.late import LateCall, LateId, Progress, Stage, asks, ended
from gateway.domain.tools import UpstreamId
from gateway.errors import LimitExceeded
from gateway.ports.late import LateCalls
from gateway.storage import late_calls
from gateway.storage.late_calls import MOST_OCTETS, SHARE, DurableLateCalls
from gateway.storage.store import Store
from tests.storage.memory_calls import MemoryLateCalls
from tests.storage.placed import PLACES, Place, SqlitePlace, placed
from tests.storage.test_approval_stores import Envelope

NOW = 1_000.0


def late(name: str = "l1", **changed: Any) -> LateCall:
    given: dict[str, Any] = {
        "id": LateId(name),
        "server": UpstreamId("desk"),
        "endpoint": "/mcp/desk",
        "principal": "alice",
        "run": RunId("r1"),
        "record": "r7",
        "target": "export",
        "definition": "sha256:ab",
        "upstream_id": "theirs-and-nobody-elses",
        "params": {"name": "export", "arguments": {"to": "a-secret-place"}},
        "octets": 100,
        "decision": {"id": f"d_{name}", "policy_digest": "p", "obligations": []},
        "joined": {"principal": "alice"},
        "began": NOW,
        "expires_at": NOW + 60,
        "poll_s": 1.0,
        "restored": (("<IBAN:1>", "a-secret-place"),),
        "written": {"name": "export", "arguments": {"to": "<IBAN:1>"}},
        "clean": True,
    }
    made = {**given, **changed}
    return LateCall(**{"person": made["principal"], **made})


@pytest.fixture(params=[*PLACES, "memory"])
async def kept(request: pytest.FixtureRequest, tmp_path: Path) -> AsyncIterator[LateCalls]:
    if request.param == "memory":
        yield MemoryLateCalls(most_open=2)
        return
    async with placed(request, tmp_path) as place:
        yield calls(place)


def calls(place: Place) -> DurableLateCalls:
    with place.reading() as tables:
        return DurableLateCalls(place.writer, tables, Envelope(), lambda: 2)


async def test_a_restart_knows_all_of_it(place: Place) -> None:
    before = calls(place)
    await before.begin(late())
    await before.change(LateId("l1"), partial(asks, names=["one"]))
    found = calls(place).find(LateId("l1"))
    assert found == late(progress=Progress(asked=("one",)))


async def test_what_it_was_called_with_and_what_its_server_calls_it_are_sealed(
    place: Place,
) -> None:
    await calls(place).begin(late())
    rows = str(place.rows("SELECT * FROM late_calls"))
    assert "l1" in rows
    assert "theirs" not in rows
    assert "a-secret-place" not in rows


async def test_the_first_end_stays(kept: LateCalls) -> None:
    await kept.begin(late())
    before = await kept.change(
        LateId("l1"), partial(ended, stage=Stage.COMPLETED, answer="sha256:x")
    )
    assert before == Progress()
    before = await kept.change(LateId("l1"), partial(ended, stage=Stage.FAILED, answer="sha256:y"))
    assert before is not None
    assert before.stage is Stage.COMPLETED
    found = kept.find(LateId("l1"))
    assert found is not None
    assert (found.progress.stage, found.progress.answer) == (Stage.COMPLETED, "sha256:x")
    assert await kept.change(LateId("none"), partial(ended, stage=Stage.FAILED)) is None


async def test_of_one_principal_so_many_are_open_and_of_all_so_much_is_kept(
    kept: LateCalls,
) -> None:
    await kept.begin(late("l1"))
    await kept.begin(late("l2"))
    assert not kept.has_room("alice", 1)
    with pytest.raises(LimitExceeded):
        await kept.begin(late("l3"))
    assert kept.has_room("bob", 1)
    await kept.begin(late("l4", principal="bob"))
    await kept.change(LateId("l1"), partial(ended, stage=Stage.COMPLETED))
    assert kept.has_room("alice", 1)
    with pytest.raises(LimitExceeded):
        await kept.begin(late("l5", octets=MOST_OCTETS))


async def finished(kept: LateCalls, name: str) -> None:
    await kept.change(LateId(name), partial(ended, stage=Stage.COMPLETED))
    await kept.change(LateId(name), lambda now: replace(now, recorded=True))


async def test_what_one_principal_holds_leaves_room_for_all_others(kept: LateCalls) -> None:
    half = SHARE // 2
    for turn in range(3 * MOST_OCTETS // half):
        assert kept.has_room("alice", half)
        await kept.begin(late(f"a{turn}", octets=half, began=NOW + turn))
        await finished(kept, f"a{turn}")
    # Of what has ended the oldest has made way for the next.
    last = 3 * MOST_OCTETS // half - 1
    found = [turn for turn in range(last + 1) if kept.find(LateId(f"a{turn}"))]
    assert found == [last - 1, last]
    await kept.begin(late("b1", principal="bob", octets=SHARE))
    assert kept.find(LateId(f"a{last}")) is not None


async def test_what_is_open_makes_way_for_nothing(kept: LateCalls) -> None:
    await kept.begin(late("l1", octets=SHARE - 100))
    assert kept.has_room("alice", 100)
    assert not kept.has_room("alice", 101)
    with pytest.raises(LimitExceeded):
        await kept.begin(late("l2", octets=101))
    await kept.change(LateId("l1"), partial(ended, stage=Stage.COMPLETED))
    # Its outcome is not on record yet.
    assert not kept.has_room("alice", 101)
    await kept.change(LateId("l1"), lambda now: replace(now, recorded=True))
    await kept.begin(late("l2", octets=101))
    assert kept.find(LateId("l1")) is None


async def test_the_names_of_what_is_asked_are_bytes_too(kept: LateCalls) -> None:
    await kept.begin(late("l1", octets=SHARE - 100))
    await kept.change(LateId("l1"), partial(asks, names=["n" * 60]))
    assert not kept.has_room("alice", 41)
    assert kept.has_room("alice", 40)


async def test_of_all_so_much_is_kept_and_who_has_ended_ones_may_change_them_for_others(
    kept: LateCalls,
) -> None:
    for number in range(MOST_OCTETS // SHARE):
        await kept.begin(late(f"l{number}", principal=f"p{number}", octets=SHARE))
    assert not kept.has_room("alice", 1)
    assert not kept.has_room("p0", 1)
    await finished(kept, "l0")
    await kept.begin(late("again", principal="p0", octets=SHARE))
    assert kept.find(LateId("l0")) is None


def of_client(name: str, client: int, **changed: Any) -> LateCall:
    return late(name, principal=f"us|mallory|c{client}", person="us|mallory", **changed)


async def test_one_persons_clients_have_one_share_together(kept: LateCalls) -> None:
    for number in range(2):
        await kept.begin(of_client(f"m{number}", number, octets=SHARE // 2 - 1))
    assert not kept.has_room("us|mallory", 1)
    for octets in (1, 3):
        with pytest.raises(LimitExceeded):
            await kept.begin(of_client("m2", 2, octets=octets))
    await finished(kept, "m0")
    assert kept.has_room("us|mallory", SHARE // 2)
    assert not kept.has_room("us|mallory", SHARE // 2 + 2)
    assert kept.has_room("alice", SHARE)


async def test_a_restart_knows_whose_share_it_is(place: Place) -> None:
    before = calls(place)
    for number in range(2):
        await before.begin(of_client(f"m{number}", number))
    again = calls(place)
    assert not again.has_room("us|mallory", 1)
    assert again.find(LateId("m0")) == of_client("m0", 0)


@pytest.mark.parametrize("bound", ["MOST", "MOST_OCTETS"])
async def test_where_all_is_full_the_oldest_ended_ones_of_whoever_holds_most_make_way(
    kept: LateCalls, monkeypatch: pytest.MonkeyPatch, bound: str
) -> None:
    for began, name in enumerate(["b0", "a0", "a1", "a2", "c0"]):
        who = {"b": "bob", "a": "ann", "c": "cid"}[name[0]]
        await kept.begin(late(name, principal=who, began=NOW + began))
        if name != "c0":
            await finished(kept, name)
    monkeypatch.setattr(late_calls, bound, 5 if bound == "MOST" else 500)
    assert kept.has_room("dan", 100)
    await kept.begin(late("d0", principal="dan"))
    assert [name for name in ("b0", "a0", "a1", "a2", "c0", "d0") if kept.find(LateId(name))] == [
        "b0",
        "a1",
        "a2",
        "c0",
        "d0",
    ]
    # What has not ended, or is not on record, makes way for nobody.
    monkeypatch.setattr(late_calls, bound, 2 if bound == "MOST" else 200)
    assert not kept.has_room("eve", 100)


async def test_what_ran_out_is_forgotten_once_it_is_on_record(kept: LateCalls) -> None:
    await kept.begin(late("l1"))
    await kept.begin(late("l2", expires_at=NOW + 10_000))
    assert list(kept.unsettled(now=NOW)) == []
    assert [one.id for one in kept.unsettled(now=NOW + 61)] == ["l1"]
    assert await kept.forget(before=NOW + 5_000) == 0
    await kept.change(LateId("l1"), partial(ended, stage=Stage.EXPIRED))
    assert [one.id for one in kept.unsettled(now=NOW)] == ["l1"]
    await kept.change(LateId("l1"), lambda now: replace(now, recorded=True))
    assert list(kept.unsettled(now=NOW + 61)) == []
    assert await kept.forget(before=NOW + 5_000) == 1
    assert kept.find(LateId("l1")) is None
    assert kept.find(LateId("l2")) is not None


async def test_what_is_late_is_not_told_as_lost(tmp_path: Path) -> None:
    opened = await Store.open(tmp_path / "var", clock=lambda: NOW)
    fields = {"method": "tools/call", "verdict": "allow"}
    for name in ("l1", "l2"):
        record = AuditRecord(
            kind=RecordKind.INTENT, time=NOW, id=name, fields={**fields, "decision_id": f"d_{name}"}
        )
        await opened.audit.append(record)
    await calls(SqlitePlace(opened)).begin(late("l1"))
    with closing(opened.log.reader()) as reader:
        assert [record["id"] for record in reader.outcome_unknown()] == ["l2"]
    await opened.close()
    again = await Store.open(tmp_path / "var", clock=lambda: NOW)
    assert again.found.outcome_unknown == 1
    await again.close()


async def test_one_that_noted_no_person_is_its_principals(
    place: Place, monkeypatch: pytest.MonkeyPatch
) -> None:
    spelled = late_calls._spelled

    def as_before(one: LateCall) -> bytes:
        return spelled(one).replace(b'"person":"us|mallory",', b"")

    monkeypatch.setattr(late_calls, "_spelled", as_before)
    await calls(place).begin(of_client("m0", 0))
    found = calls(place).find(LateId("m0"))
    assert found is not None
    assert found.person == found.principal == "us|mallory|c0"


async def test_one_that_noted_a_place_in_the_log_is_known_by_it(place: Place) -> None:
    earlier: Any = 7
    await calls(place).begin(late(record=earlier))
    assert calls(place).find(LateId("l1")) == late(record="7")
