"""What departs from the usual is recorded once, whatever fails in between, and not when it is old."""

import json
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import closing
from datetime import UTC, datetime
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from gateway.behaviour.baselines import Baselines
from gateway.behaviour.deviations import Kind
from gateway.domain.audit import AuditRecord, LogEntry, RecordKind
from gateway.errors import AuditUnavailable
from gateway.export.deviations import DeviationSink
from gateway.export.follower import Follower
from gateway.ports.following import NotDelivered, StoredRecord
from gateway.storage.baselines import FOLLOWER, DurableBaselines
from gateway.storage.store import Store
from tests.behaviour.life import LEARNING_S, Life, at

NOW = at(4, 0, 12)


@pytest.fixture
async def store(tmp_path: Path) -> AsyncIterator[Store]:
    opened = await Store.open(tmp_path / "data", clock=lambda: NOW)
    yield opened
    await opened.close()


class Audit:
    """The log, which may fail before or after it has taken a record."""

    def __init__(self, store: Store) -> None:
        self._store = store
        self.fails_before = 0
        self.fails_after = 0

    async def append(self, record: AuditRecord) -> LogEntry:
        if self.fails_before:
            self.fails_before -= 1
            raise AuditUnavailable("no", detail="the disk is full")
        entry = await self._store.audit.append(record)
        if self.fails_after:
            self.fails_after -= 1
            raise AuditUnavailable("no", detail="too slow")
        return entry


class Rig:
    def __init__(self, store: Store) -> None:
        self.store = store
        self.audit = Audit(store)
        self.counted: list[Kind] = []
        self.now = NOW
        self.sink = self.begun()

    def begun(self) -> DeviationSink:
        """Return a sink as after a restart."""
        return DeviationSink(
            baselines=partial(Baselines, learning_s=LEARNING_S),
            store=DurableBaselines(self.store.writer),
            audit=self.audit,
            is_recorded=self._is_recorded,
            count=self.counted.append,
            clock=lambda: self.now,
        )

    def _is_recorded(self, id_: str) -> bool:
        with closing(self.store.log.reader()) as reader:
            return reader.find(id_) is not None

    def told(self) -> list[dict[str, Any]]:
        with closing(self.store.log.reader()) as reader:
            return [row for row in reader.export() if row["kind"] == "system"]


def stored(life: Life, calls: Sequence[Any]) -> list[StoredRecord]:
    return [
        StoredRecord(leaf_index=one.leaf_index, leaf_hash=b"", body=body_of(one)) for one in calls
    ]


def body_of(one: Any) -> bytes:
    members = {
        "log_id": "l",
        "id": one.record,
        "time": datetime.fromtimestamp(one.time, UTC).isoformat().replace("+00:00", "Z"),
        "kind": "outcome",
        "principal": one.principal,
        "client": one.client,
        "method": "tools/call",
        "server": one.server,
        "target": one.tool,
        "verdict": "deny" if one.refused else "allow",
        "destinations": [{"path": "$.to", "value_hmac": place} for place in one.destinations],
    }
    return json.dumps(members, separators=(",", ":")).encode()


@pytest.fixture
def rig(store: Store) -> Rig:
    return Rig(store)


@pytest.fixture
def life() -> Life:
    return Life()


async def test_a_deviation_is_recorded_with_its_evidence_and_counted(rig: Rig, life: Life) -> None:
    await rig.sink.deliver(stored(life, list(life.weeks(4))))
    assert rig.told() == []
    burst = life.calls(at(4, 0, 9), 200)
    await rig.sink.deliver(stored(life, burst))
    (told,) = rig.told()
    assert told["code"] == "unusual_rate"
    assert told["principal"] == "emma"
    assert told["reasons"] == [
        {
            "code": "unusual_rate",
            "message": "emma: 121 calls in an hour; on 20 days it was 10 as a rule and 10 at most",
        }
    ]
    assert told["evidence"]["cases"] == [one.leaf_index for one in burst[:5]]
    assert told["evidence"]["record"] == burst[120].record
    assert rig.counted == [Kind.RATE]


@pytest.mark.parametrize("fails", ["fails_before", "fails_after"])
async def test_what_cannot_be_recorded_is_recorded_later_and_once(
    rig: Rig, life: Life, fails: str
) -> None:
    await rig.sink.deliver(stored(life, list(life.weeks(4))))
    setattr(rig.audit, fails, 1)
    page = stored(life, life.calls(at(4, 0, 9), 200))
    with pytest.raises(NotDelivered):
        await rig.sink.deliver(page)
    await rig.sink.deliver(page)
    await rig.sink.deliver(page)
    assert len(rig.told()) == 1
    assert rig.counted == [Kind.RATE]


async def test_a_page_that_comes_again_is_learned_from_once(rig: Rig, life: Life) -> None:
    page = stored(life, [life.call(at(4, 0, 9) + second) for second in range(3)])
    await rig.sink.deliver(page)
    once = rig.sink.baselines.changes()
    await rig.sink.deliver(page)
    assert rig.sink.baselines.changes() == once


async def test_a_restart_between_the_record_and_the_cursor_tells_nothing_twice(
    rig: Rig, life: Life
) -> None:
    ordinary = stored(life, list(life.weeks(4)))
    await rig.sink.cursor(FOLLOWER)
    await rig.sink.deliver(ordinary)
    await rig.sink.move(FOLLOWER, ordinary[-1].leaf_index)
    page = stored(life, life.calls(at(4, 0, 9), 200))
    await rig.sink.deliver(page)
    again = rig.begun()
    assert await again.cursor(FOLLOWER) == ordinary[-1].leaf_index
    await again.deliver(page)
    assert len(rig.told()) == 1


async def test_a_restart_goes_on_with_what_was_learned(rig: Rig, life: Life) -> None:
    ordinary = stored(life, list(life.weeks(4)))
    assert await rig.sink.cursor(FOLLOWER) is None
    await rig.sink.deliver(ordinary)
    await rig.sink.move(FOLLOWER, ordinary[-1].leaf_index)
    again = rig.begun()
    await again.cursor(FOLLOWER)
    await again.deliver(stored(life, life.calls(at(4, 0, 2), 40)))
    (told,) = rig.told()
    assert told["code"] == "unusual_hour"


async def test_the_cursor_and_what_was_learned_move_together_or_not_at_all(
    rig: Rig, life: Life, monkeypatch: pytest.MonkeyPatch
) -> None:
    ordinary = stored(life, list(life.weeks(4)))
    await rig.sink.deliver(ordinary)

    async def fails(*_: object, **__: object) -> None:
        raise AuditUnavailable("no", detail="the disk is full")

    with monkeypatch.context() as broken:
        broken.setattr(rig.store.writer, "run", fails)
        with pytest.raises(AuditUnavailable):
            await rig.sink.move(FOLLOWER, ordinary[-1].leaf_index)
    assert await DurableBaselines(rig.store.writer).kept() == (None, [])
    await rig.sink.move(FOLLOWER, ordinary[-1].leaf_index)
    kept, rows = await DurableBaselines(rig.store.writer).kept()
    assert kept == ordinary[-1].leaf_index
    assert len(rows) == 4


async def test_what_was_learned_is_kept_every_few_seconds(rig: Rig, life: Life) -> None:
    kept = DurableBaselines(rig.store.writer)
    await rig.sink.move(FOLLOWER, 1)
    rig.now += 4
    await rig.sink.deliver(stored(life, [life.call(at(4, 0, 9))]))
    await rig.sink.move(FOLLOWER, 2)
    assert await kept.kept() == (1, [])
    rig.now += 1
    await rig.sink.move(FOLLOWER, 3)
    assert (await kept.kept())[0] == 3
    rig.now -= 3600
    await rig.sink.move(FOLLOWER, 4)
    assert (await kept.kept())[0] == 4


async def test_who_leaves_is_deleted_and_all_can_be_forgotten(rig: Rig) -> None:
    kept = DurableBaselines(rig.store.writer)
    await kept.keep(1, {"a": b"1", "b": b"2"})
    await kept.keep(2, {"a": None, "b": b"3"})
    assert await kept.kept() == (2, [("b", b"3")])
    await kept.forget()
    assert await kept.kept() == (None, [])


async def test_of_two_that_learned_from_one_place_on_one_keeps_it(rig: Rig) -> None:
    one, other = DurableBaselines(rig.store.writer), DurableBaselines(rig.store.writer)
    assert await one.kept() == await other.kept() == (None, [])
    await one.keep(1, {"a": b"1"})
    with pytest.raises(AuditUnavailable, match="another gateway"):
        await other.keep(5, {"a": b"5"})
    await one.keep(2, {"a": b"2"})
    assert await other.kept() == (2, [("a", b"2")])
    await other.keep(3, {"a": b"3"})
    with pytest.raises(AuditUnavailable, match="another gateway"):
        await one.keep(9, {"a": b"9"})
    assert await other.kept() == (3, [("a", b"3")])


async def test_what_was_kept_though_nobody_heard_of_it_is_no_others(
    rig: Rig, monkeypatch: pytest.MonkeyPatch
) -> None:
    kept = DurableBaselines(rig.store.writer)
    await kept.kept()
    run = rig.store.writer.run

    async def unheard(job: Any) -> None:
        await run(job)
        raise AuditUnavailable("no", detail="no answer in time")

    with monkeypatch.context() as broken:
        broken.setattr(rig.store.writer, "run", unheard)
        with pytest.raises(AuditUnavailable):
            await kept.keep(1, {"a": b"1"})
    await kept.keep(1, {"a": b"1"})
    await kept.keep(2, {"a": b"2"})
    assert await kept.kept() == (2, [("a", b"2")])


async def test_what_another_version_has_learned_is_learned_anew(rig: Rig) -> None:
    await DurableBaselines(rig.store.writer).keep(7, {'["all"]': b"[0]"})
    assert await rig.sink.cursor(FOLLOWER) is None
    assert await DurableBaselines(rig.store.writer).kept() == (None, [])


async def test_what_happened_long_ago_is_learned_and_not_told(rig: Rig, life: Life) -> None:
    rig.now = at(6, 0, 9)
    await rig.sink.deliver(stored(life, list(life.weeks(4))))
    await rig.sink.deliver(stored(life, life.calls(at(4, 0, 9), 200)))
    assert rig.told() == []
    assert rig.counted == []


async def test_it_follows_the_log_itself(rig: Rig, life: Life) -> None:
    records = [*life.weeks(1)]
    for one in records[:3]:
        fields = {"principal": one.principal, "method": "tools/call", "server": "mail"}
        await rig.store.audit.append(
            AuditRecord(kind=RecordKind.OUTCOME, time=one.time, id=one.record, fields=fields)
        )
    await rig.store.caught_up()
    with closing(rig.store.log.reader()) as reader:
        follower = Follower(FOLLOWER, source=reader, cursors=rig.sink, sink=rig.sink)
        assert await follower.step()
        assert not await follower.step()
    assert rig.sink.baselines.size()["principal"] == 1


def outcome(**members: Any) -> Callable[[], StoredRecord]:
    whole = {
        "id": "x",
        "time": "2026-01-05T09:00:00.000000Z",
        "kind": "outcome",
        "principal": "emma",
        "method": "tools/call",
        "server": "mail",
        "target": "search",
        **members,
    }
    body = json.dumps(whole, separators=(",", ":")).encode()
    return lambda: StoredRecord(leaf_index=0, leaf_hash=b"", body=body)


@pytest.mark.parametrize(
    "record",
    [
        pytest.param(outcome(kind="intent"), id="intent"),
        pytest.param(outcome(kind="system", code="unusual_rate"), id="its own"),
        pytest.param(outcome(kind="list", method="tools/list"), id="list"),
        pytest.param(outcome(method="resources/read"), id="another method"),
        pytest.param(outcome(server=""), id="the gateway's own tool"),
        pytest.param(outcome(principal=None), id="nobody"),
    ],
)
async def test_records_of_anything_else_are_passed_over(
    rig: Rig, record: Callable[[], StoredRecord]
) -> None:
    await rig.sink.deliver([record()])
    assert rig.sink.baselines.size() == {"principal": 0, "client": 0, "tool": 0}
