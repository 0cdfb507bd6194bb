"""Recorded decisions put to another policy, as people ask for it."""

import asyncio
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import pytest

from gateway.admin.audit import AuditDesk
from gateway.admin.replay import ReplayDesk
from gateway.audit.query import Statement
from gateway.domain.audit import AuditRecord, RecordKind
from gateway.errors import BadCommand, ConfigError, Forbidden, NotFound
from gateway.storage.store import Store
from tests.admin.world import (
    ADMIN,
    AUDITOR,
    NOW,
    STRANGER,
    USER,
    clock,
    new_journal,
    opened,
)
from tests.storage.memory import MemoryAuditLog


class Log:
    """Records by their leaf index; it notes which ranges it is asked for."""

    def __init__(self, records: Sequence[Mapping[str, Any]]) -> None:
        self.records = [{"leaf_index": i, **record} for i, record in enumerate(records)]
        self.asked: list[Statement] = []

    def query(self, statement: Statement) -> list[dict[str, Any]]:
        self.asked.append(statement)
        low, high = (int(p) for p in statement.parameters if isinstance(p, float))
        return [dict(one) for one in reversed(self.records[low:high])]

    def newest(self) -> int:
        return len(self.records) - 1

    def first_since(self, time_us: int) -> int:
        return 0


class Finding:
    def __init__(self, finding: str, lacking: Sequence[str] = ()) -> None:
        after = None if finding == "inexact" else {"verdict": "deny", "reasons": ["closed"]}
        before = {"verdict": "allow", "reasons": []}
        self.members: dict[str, Any] = {
            "finding": finding,
            "before": before,
            "after": before if finding == "same" else after,
            "lacking": list(lacking),
        }


class Policy:
    digest = "sha256:new"

    def compare(self, record: Mapping[str, Any]) -> Finding | None:
        match record["says"]:
            case "none":
                return None
            case "inexact":
                return Finding("inexact", ["arguments.to"])
            case word:
                return Finding(str(word))


def decided(says: str, number: int = 0, **changes: Any) -> dict[str, Any]:
    return {
        "says": says,
        "id": f"r{number}",
        "time": f"2027-01-15T08:00:{number:02}Z",
        "kind": "intent",
        "server": "mail",
        "target": "send",
        "decision_id": f"d_{number}",
        **changes,
    }


def desk_of(
    records: Sequence[Mapping[str, Any]], *, log: MemoryAuditLog | None = None, trials: Any = None
) -> ReplayDesk:
    return ReplayDesk(
        Log(records),
        new_journal(log or MemoryAuditLog()),
        trials=trials or (lambda files: Policy()),
        explained=lambda record: {"finding": "same", "of": record["id"]},
        placed=lambda record: {"finding": "not_asked", "of": record["id"]},
        records_of=_records,
        hashes_of=lambda text: ["hmac", f"former of {text}"],
        clock=clock,
    )


async def _records(_: object, *, decision: str) -> list[dict[str, Any]]:
    return [
        {"id": "i1", "decision_id": decision, "question": {}},
        {"id": "o1", "decision_id": decision},
    ]


async def replayed(desk: ReplayDesk, **asked: Any) -> list[dict[str, Any]]:
    rows = [row async for row in desk.replay(AUDITOR, **asked)]
    return [row for row in rows if row["finding"] != "progress"]


async def test_a_replay_tells_what_is_otherwise_and_counts_all() -> None:
    records = [
        decided("same", 1),
        decided("changed", 2),
        decided("inexact", 3),
        decided("changed", 4),
        decided("none", 5, pin_digest="sha256:d"),
        decided("none", 6, kind="outcome", pin_digest="sha256:d"),
        decided("none", 7),
        decided("none", 8, kind="outcome", truncated=["arguments", "question"]),
    ]
    *rows, summary = await replayed(desk_of(records))
    assert [(row["finding"], row["decision_id"]) for row in rows] == [
        ("changed", "d_2"),
        ("inexact", "d_3"),
        ("changed", "d_4"),
    ]
    assert summary == {
        "finding": "summary",
        "policy_digest": "sha256:new",
        "decisions": 4,
        "same": 1,
        "changed": 2,
        "inexact": 1,
        "without_question": 2,
        "changes": [
            {
                "server": "mail",
                "target": "send",
                "before": "allow",
                "after": "deny",
                "reasons": ["closed"],
                "count": 2,
            }
        ],
        "lacking": {"arguments.to": 1},
        "first": "2027-01-15T08:00:01Z",
        "last": "2027-01-15T08:00:04Z",
        "more": False,
    }


async def test_every_record_is_looked_at_once_page_by_page() -> None:
    records = [decided("same", number % 60) for number in range(501)]
    desk = desk_of(records)
    rows = [row async for row in desk.replay(ADMIN)]
    assert rows[-1]["decisions"] == 501
    told = [(row["done"], row["of"]) for row in rows if row["finding"] == "progress"]
    assert told == [(200, 501), (400, 501), (501, 501)]


@pytest.mark.parametrize(("limit", "more"), [(3, True), (5, False), (9, False)])
async def test_a_limit_is_kept_and_said(limit: int, more: bool) -> None:
    (summary,) = await replayed(desk_of([decided("same", n) for n in range(5)]), limit=limit)
    assert (summary["decisions"], summary["more"]) == (min(limit, 5), more)


async def test_a_replay_is_for_auditors_and_admins_alone() -> None:
    desk = desk_of([])
    for person in (STRANGER, USER):
        with pytest.raises(Forbidden):
            await anext(desk.replay(person))
        with pytest.raises(Forbidden):
            await desk.explain(person, decision="d_1")


async def test_a_replay_is_on_record_before_anything_is_compiled() -> None:
    log = MemoryAuditLog()

    def trials(files: Mapping[str, str] | None) -> Policy:
        assert [record.kind for record in log.records] == [RecordKind.ADMIN]
        assert files == {"a.rego": "package a"}
        return Policy()

    desk = desk_of([], log=log, trials=trials)
    where = "server = mail and arguments.to = emma@private.example"
    await replayed(desk, since="24h", where=where, files={"a.rego": "package a"})
    fields = log.records[0].fields
    assert (fields["method"], fields["code"], fields["principal"]) == (
        "policy.replay",
        "replayed",
        AUDITOR.name,
    )
    assert fields["reasons"][0]["message"] == (
        'a policy of theirs, since = "24h",'
        ' (server = "mail" and arguments.to = hmac), oldest 100000'
    )


@pytest.mark.parametrize(
    "asked",
    [{"since": "soon"}, {"until": "later"}, {"where": "nonsense ="}, {"limit": 0}],
    ids=["since", "until", "where", "limit"],
)
async def test_what_cannot_be_read_is_said_before_anything_is_recorded(
    asked: dict[str, Any],
) -> None:
    log = MemoryAuditLog()
    with pytest.raises(BadCommand):
        await replayed(desk_of([], log=log), **asked)
    assert log.records == []


async def test_a_filter_cannot_reach_out_of_its_place() -> None:
    with pytest.raises(BadCommand):
        await replayed(desk_of([]), where="server = mail) or (kind = admin")


async def test_a_policy_that_cannot_be_used_is_an_answer_on_record() -> None:
    log = MemoryAuditLog()

    def trials(_: object) -> Policy:
        raise BadCommand("the policy is refused", reasons=[("policy", "a.rego:1: no")])

    with pytest.raises(BadCommand):
        await replayed(desk_of([], log=log, trials=trials))
    assert [record.fields["verdict"] for record in log.records] == ["allow", "deny"]
    assert not issubclass(ConfigError, BadCommand)


async def test_one_replay_at_a_time() -> None:
    desk = desk_of([decided("same", n) for n in range(500)])
    first = desk.replay(ADMIN)
    await anext(first)
    with pytest.raises(BadCommand, match="under way"):
        async with asyncio.timeout(60):
            await anext(desk.replay(ADMIN))
    await first.aclose()
    assert (await replayed(desk))[-1]["decisions"] == 500


async def test_calls_get_their_turn_during_a_replay() -> None:
    turns = 0

    async def others() -> None:
        nonlocal turns
        while True:
            turns += 1
            await asyncio.sleep(0)

    beside = asyncio.create_task(others())
    await replayed(desk_of([decided("same", n % 60) for n in range(1000)]))
    beside.cancel()
    assert turns > 5


async def test_a_decision_is_explained_by_the_record_that_keeps_its_question() -> None:
    *records, last = await desk_of([]).explain(AUDITOR, decision="d_1")
    assert [record["id"] for record in records] == ["i1", "o1"]
    assert last == {"reevaluation": {"finding": "same", "of": "i1"}}


async def test_without_asking_again_the_newest_refusal_is_placed_in_the_policys_text() -> None:
    desk = desk_of([])
    *records, last = await desk.explain(AUDITOR, decision="d_1", again=False)
    assert [record["id"] for record in records] == ["i1", "o1"]
    assert last == {"reevaluation": {"finding": "not_asked", "of": "o1"}}

    async def held_then_let_out(_: object, *, decision: str) -> list[dict[str, Any]]:
        held = {"id": "o1", "decision_id": decision, "verdict": "ask"}
        return [held, {"id": "i2", "decision_id": decision, "verdict": "allow"}]

    desk._records_of = held_then_let_out
    *_, last = await desk.explain(AUDITOR, decision="d_1", again=False)
    assert last["reevaluation"]["of"] == "o1"


async def test_over_the_real_log_only_decisions_of_the_window_are_read(tmp_path: Path) -> None:
    async with opened(tmp_path / "data") as (admin, store):
        await _recorded(store)
        answer = admin.commands.run(ADMIN, "policy.replay", b'{"since": "1h"}')
        rows = [row async for row in answer]  # type: ignore[union-attr]  # it streams
        assert [row["decision_id"] for row in rows if row["finding"] == "changed"] == ["d_2", "d_3"]
        narrowed = admin.commands.run(
            ADMIN, "policy.replay", b'{"since": "1h", "where": "server = web"}'
        )
        rows = [row async for row in narrowed]  # type: ignore[union-attr]
        assert [row["decision_id"] for row in rows if row["finding"] == "changed"] == ["d_3"]
        with pytest.raises(NotFound):
            await AuditDesk.explain(_desk(admin), ADMIN, decision="d_9")


async def test_a_destination_that_is_not_written_down_is_found_by_its_value(
    tmp_path: Path,
) -> None:
    async with opened(tmp_path / "data") as (admin, store):
        told = [{"value_hmac": store.hashes_of("a@b.example")[0]}]
        fields = {"decision_id": "d_1", "question": {"phase": "call"}, "destinations": told}
        await store.audit.append(
            AuditRecord(kind=RecordKind.INTENT, time=NOW - 9, id="r1", fields=fields)
        )
        asked = b'{"where": "destinations.value = \\"a@b.example\\""}'
        rows = [row async for row in admin.commands.run(ADMIN, "policy.replay", asked)]  # type: ignore[union-attr]
        assert rows[-1]["decisions"] == 1


async def test_words_are_no_selection_of_decisions() -> None:
    with pytest.raises(BadCommand, match="selects by fields"):
        await replayed(desk_of([]), where="reasons match closed")


def _desk(admin: Any) -> AuditDesk:
    desk: AuditDesk = admin.commands._acts["audit.explain"].__self__
    return desk


async def _recorded(store: Store) -> None:
    for number, (age, kind, server) in enumerate(
        (
            (7200, RecordKind.INTENT, "mail"),
            (60, RecordKind.INTENT, "mail"),
            (50, RecordKind.OUTCOME, "web"),
            (40, RecordKind.ADMIN, "mail"),
        ),
        start=1,
    ):
        fields = {"decision_id": f"d_{number}", "server": server, "question": {"phase": "call"}}
        await store.audit.append(
            AuditRecord(kind=kind, time=NOW - age, id=f"r{number}", fields=fields)
        )
