"""The log is read by auditors and admins, and proven against what was kept elsewhere."""

import asyncio
import json
import sqlite3
import threading
from pathlib import Path
from typing import Any

import pytest

from gateway.admin import Admin
from gateway.admin.archive import Archive
from gateway.admin.audit import AuditDesk
from gateway.admin.journal import Journal
from gateway.admin.verifying import VerifyDesk
from gateway.audit.query import Order, cursor_of
from gateway.domain.audit import AuditRecord, LogEntry, RecordKind
from gateway.errors import AuditUnavailable, BadCommand, Forbidden, NotFound, RateLimited
from gateway.storage.database import DATABASE
from gateway.storage.store import Store
from tests.admin.world import APPROVER, AUDITOR, NOW, STRANGER, USER, new_journal, opened
from tests.storage.memory import MemoryAuditLog


async def write(store: Store, *ids: str, start: float = NOW) -> None:
    for number, id_ in enumerate(ids):
        fields = {
            "principal": "emma",
            "server": "mail",
            "target": "send",
            "verdict": "deny",
            "code": "denied",
            "decision_id": f"d_{id_[-1]}",
            "arguments": {"to": "x"},
        }
        record = AuditRecord(kind=RecordKind.OUTCOME, time=start + number, id=id_, fields=fields)
        await store.audit.append(record)


def ids(records: Any) -> list[str]:
    return [record["id"] for record in records]


async def ask(admin: Admin, command: str, **arguments: Any) -> Any:
    answer: Any = admin.commands.run(AUDITOR, command, json.dumps(arguments).encode())
    return await answer


async def test_a_query_gives_the_newest_first_and_at_most_the_limit(tmp_path: Path) -> None:
    async with opened(tmp_path) as (admin, store):
        await write(store, "r1", "r2", "r3", start=NOW - 100)
        assert ids(await ask(admin, "audit.query", limit=2)) == ["r3", "r2"]
        assert ids(await ask(admin, "audit.query", where="leaf_index = 0")) == ["r1"]
        assert await ask(admin, "audit.query", server="web") == []
        assert ids(await ask(admin, "audit.query", since="99s", server="mail")) == ["r3", "r2"]


@pytest.mark.parametrize("command", ["audit.query", "audit.records", "policy.replay"])
@pytest.mark.parametrize(
    "asked",
    [
        {"where": "arguments.to = alice emma@private.example"},
        {"where": "arguments.to = 'emma@private.example"},
        {"where": "emma@private.example = alice"},
        {"where": "seq = emma@private.example"},
        {"since": "emma@private.example"},
    ],
    ids=["no end", "no text", "no field", "no number", "no time"],
)
async def test_of_a_filter_that_cannot_be_used_its_words_are_told_and_not_recorded(
    tmp_path: Path, command: str, asked: Any
) -> None:
    async with opened(tmp_path) as (admin, _):
        answer: Any = admin.commands.run(AUDITOR, command, json.dumps(asked).encode())
        with pytest.raises(BadCommand) as refusal:
            await (answer if command == "audit.query" else anext(answer))
        await admin.people.refused(AUDITOR, command, refusal.value)
    assert "emma@pri" in refusal.value.public
    written = b"".join(path.read_bytes() for path in tmp_path.rglob("*") if path.is_file())
    assert b"bad_command" in written
    assert b"emma@pri" not in written


async def test_a_page_goes_on_behind_a_cursor_or_a_record(tmp_path: Path) -> None:
    async with opened(tmp_path) as (admin, store):
        await write(store, "r1", "r2", "r3", "r4", start=NOW - 100)
        first = await ask(admin, "audit.query", server="mail", limit=2)
        cursor = cursor_of(first[-1], Order.NEWEST)
        for after in (cursor, "r3"):
            page = await ask(admin, "audit.query", server="mail", limit=2, after=after)
            assert ids(page) == ["r2", "r1"]
        oldest = await ask(admin, "audit.query", server="mail", order="oldest", after="r3")
        assert ids(oldest) == ["r4"]
        with pytest.raises(BadCommand, match="not a cursor"):
            await ask(admin, "audit.query", after="r5")


def reads_of(store: Store) -> list[tuple[str, str, str]]:
    """Who read what, as the log has it."""
    reader = store.log.reader()
    try:
        found = [record for record in reader.export() if record.get("code") == "read"]
    finally:
        reader.close()
    assert {record["kind"] for record in found} <= {"admin"}
    return [(r["principal"], r["method"], r["reasons"][0]["message"]) for r in found]


async def test_whoever_reads_is_on_record_first_and_sees_nothing_of_it(tmp_path: Path) -> None:
    async with opened(tmp_path) as (admin, store):
        await write(store, "r1")
        hashed = (await ask(admin, "audit.hash", content="secret"))["json"]
        assert ids(await ask(admin, "audit.query", limit=1, server="mail")) == ["r1"]
        where = "arguments.to = secret and principal = emma"
        assert await ask(admin, "audit.query", where=where) == []
        await ask(admin, "audit.show", record="r1")
        await ask(admin, "audit.explain", decision="d_1")
        await ask(admin, "audit.stats")
        tail: Any = admin.commands.run(AUDITOR, "audit.tail", b'{"lines": 1}')
        last = [record async for record in tail]
        assert [record["method"] for record in last] == ["audit.stats"]
        every: Any = admin.commands.run(AUDITOR, "audit.export", b"{}")
        exported = [record async for record in every]
        assert exported[-1]["method"] == "audit.tail"
        told = [(method, message) for _, method, message in reads_of(store)]
        assert told == [
            ("audit.hash", hashed),
            ("audit.query", 'server = "mail", newest 1'),
            ("audit.query", f'(arguments.to = {hashed} and principal = "emma"), newest 100'),
            ("audit.show", "r1"),
            ("audit.explain", "d_1"),
            ("audit.stats", "counts"),
            ("audit.tail", "1 lines, follow = False"),
            ("audit.export", "every record"),
        ]
        assert {who for who, _, _ in reads_of(store)} == {AUDITOR.name}


async def test_what_cannot_be_recorded_is_not_read(tmp_path: Path) -> None:
    async with opened(tmp_path) as (admin, store):
        await write(store, "r1")
        store.writer._closing = True
        try:
            reads: dict[str, dict[str, Any]] = {
                "audit.query": {},
                "audit.explain": {"decision": "d_1"},
                "audit.show": {"record": "r1"},
                "audit.stats": {},
                "audit.hash": {"content": 1},
                "audit.ask": {"question": "top"},
                "runs.show": {"run": "r_new"},
                "runs.picture": {"run": "r_new"},
            }
            for command, arguments in reads.items():
                with pytest.raises(AuditUnavailable):
                    await ask(admin, command, **arguments)
            for command in ("audit.tail", "audit.export"):
                with pytest.raises(AuditUnavailable):
                    await anext(admin.commands.run(AUDITOR, command, b"{}"))  # type: ignore[arg-type]
        finally:
            store.writer._closing = False


async def test_a_tail_is_one_record_however_long_it_goes_on(tmp_path: Path) -> None:
    async with opened(tmp_path) as (admin, store):
        await write(store, "r1", "r2", "r3")
        tail: Any = admin.commands.run(AUDITOR, "audit.tail", b'{"lines": 3, "follow": true}')
        assert ids([await anext(tail) for _ in range(3)]) == ["r1", "r2", "r3"]
        await write(store, "r4")
        assert (await anext(tail))["id"] == "r4"
        await tail.aclose()
        assert [method for _, method, _ in reads_of(store)] == ["audit.tail"]


async def test_a_filter_that_cannot_be_read_is_a_bad_command(tmp_path: Path) -> None:
    async with opened(tmp_path) as (admin, _):
        with pytest.raises(BadCommand, match="no field 'nothing'"):
            await ask(admin, "audit.query", where="nothing = 1")


async def test_a_decision_is_explained_by_its_records_oldest_first(tmp_path: Path) -> None:
    async with opened(tmp_path) as (admin, store):
        await write(store, "ra", "rb", "sa")
        assert ids(await ask(admin, "audit.explain", decision="d_a")) == ["ra", "sa"]
        with pytest.raises(NotFound):
            await ask(admin, "audit.explain", decision='x" or "1" = "1')


async def test_a_record_is_shown_with_the_proof_that_it_is_in_the_log(tmp_path: Path) -> None:
    async with opened(tmp_path) as (admin, store):
        await write(store, "r1")
    async with opened(tmp_path) as (admin, store):
        shown = await ask(admin, "audit.show", record="r1", proof=True)
        assert (shown["id"], shown["proof"]["leaf_index"], shown["proof"]["size"]) == ("r1", 0, 1)
        assert "proof" not in await ask(admin, "audit.show", record="r1")
        with pytest.raises(NotFound, match="no record of that id or leaf"):
            await ask(admin, "audit.show", record="r2")


class Unsigned:
    """A reader whose log is not signed up to this record yet."""

    def find(self, record_id: str) -> dict[str, Any]:
        return {"id": record_id}

    def inclusion(self, record_id: str) -> Any:
        raise LookupError(f"record {record_id} is not signed yet")


async def test_a_record_that_is_not_signed_yet_has_no_proof() -> None:
    reader: Any = Unsigned()
    desk = AuditDesk(
        reader,
        Archive(_never, _never),  # type: ignore[arg-type]
        new_journal(MemoryAuditLog()),
        hashes_of=list,
        clock=lambda: NOW,
    )
    with pytest.raises(NotFound, match="not signed yet"):
        await desk.show(AUDITOR, record="r1", proof=True)


class Unplaced:
    """A reader whose log has no place for this record yet."""

    def find(self, record_id: str) -> None:
        return None

    def waits(self, record_id: str) -> bool:
        return record_id == "r1"


@pytest.mark.parametrize(("waited", "told"), [(0.94, (0.9, False)), (4.23, (4.2, True))])
async def test_a_log_that_is_late_is_told_to_be(waited: float, told: tuple[float, bool]) -> None:
    class Reader:
        def lag_s(self) -> float:
            return waited

    reader: Any = Reader()
    desk = AuditDesk(
        reader,
        Archive(_never, _never),  # type: ignore[arg-type]
        new_journal(MemoryAuditLog()),
        hashes_of=list,
        clock=lambda: NOW,
    )
    assert tuple((await desk.lag(AUDITOR)).values()) == told


async def test_a_record_without_a_place_says_so() -> None:
    reader: Any = Unplaced()
    desk = AuditDesk(
        reader,
        Archive(_never, _never),  # type: ignore[arg-type]
        new_journal(MemoryAuditLog()),
        hashes_of=list,
        clock=lambda: NOW,
    )
    with pytest.raises(NotFound, match="no place in the log yet"):
        await desk.show(AUDITOR, record="r1")
    with pytest.raises(NotFound, match="no record of that id or leaf"):
        await desk.show(AUDITOR, record="r2")


async def test_whoever_reads_waits_for_where_that_stands() -> None:
    async def place(entry: LogEntry) -> int:
        return {"i": 7}[entry.id]

    journal = Journal(MemoryAuditLog(), clock=lambda: NOW, new_id=lambda: "i", place=place)
    assert await journal.read(AUDITOR, "audit.query", "all") == LogEntry(id="i", leaf_index=7)


class Late:
    """A reader of a log in which another's record has the place that ours was to have."""

    def after(self, leaf_index: int, limit: int) -> list[dict[str, Any]]:
        rows = [{"leaf_index": 0, "id": "another"}, {"leaf_index": 1, "id": "own"}]
        return [row for row in rows if row["leaf_index"] > leaf_index]  # type: ignore[operator]


async def test_a_tail_leaves_out_its_own_record_wherever_that_comes_to_stand() -> None:
    async def place(_: LogEntry) -> int:
        return 0

    reader: Any = Late()
    desk = AuditDesk(
        reader,
        Archive(_never, _never),  # type: ignore[arg-type]
        Journal(MemoryAuditLog(), clock=lambda: NOW, new_id=lambda: "own", place=place),
        hashes_of=list,
        clock=lambda: NOW,
    )
    assert ids([record async for record in desk.tail(AUDITOR)]) == ["another"]


async def test_whoever_computes_the_log_again_takes_no_more_than_one_thread() -> None:
    at_once: list[int] = []
    going = threading.Semaphore(0)

    def computed(_: Any) -> Any:
        at_once.append(1)
        going.acquire(timeout=60)
        at_once.pop()
        raise LookupError(len(at_once))

    archive = Archive(_never, _never)  # type: ignore[arg-type]
    journal = new_journal(MemoryAuditLog())
    desk = VerifyDesk(computed, archive, journal, clock=lambda: NOW)
    asked = [asyncio.create_task(desk.verify(AUDITOR)) for _ in range(20)]
    async with asyncio.timeout(60):
        while not at_once:
            await asyncio.sleep(0.01)
    going.release(20)
    told = await asyncio.gather(*asked, return_exceptions=True)
    assert {type(one) for one in told} == {LookupError, RateLimited}
    assert {one.args for one in told if isinstance(one, LookupError)} == {(0,)}


def _never(notes: Any) -> Any:
    raise NotImplementedError


async def test_a_tail_ends_with_the_newest(tmp_path: Path) -> None:
    async with opened(tmp_path) as (admin, store):
        await write(store, "r1", "r2", "r3")
        tail = admin.commands.run(AUDITOR, "audit.tail", b'{"lines": 2}')
        assert ids([record async for record in tail]) == ["r2", "r3"]  # type: ignore[union-attr]


async def test_a_followed_tail_goes_on_with_what_comes(tmp_path: Path) -> None:
    async with opened(tmp_path) as (admin, store):
        await write(store, "r1")
        tail: Any = admin.commands.run(AUDITOR, "audit.tail", b'{"lines": 1, "follow": true}')
        assert (await anext(tail))["id"] == "r1"
        coming = asyncio.ensure_future(anext(tail))
        await write(store, "r2")
        assert (await coming)["id"] == "r2"
        await tail.aclose()


async def test_an_export_is_every_record_that_was_there_oldest_first(tmp_path: Path) -> None:
    async with opened(tmp_path) as (admin, store):
        await write(store, *(f"r{number:04}" for number in range(501)))
        found: list[str] = []
        async for record in admin.commands.run(AUDITOR, "audit.export", b"{}"):  # type: ignore[union-attr]
            if not found:
                await write(store, "late")
            found.append(record["id"])
        assert found == [f"r{number:04}" for number in range(501)]


async def test_statistics_count_by_kind_verdict_and_code(tmp_path: Path) -> None:
    async with opened(tmp_path) as (admin, store):
        empty = await ask(admin, "audit.stats")
        assert (empty["records"], empty["kinds"]) == (1, {"admin": 1})  # that it was asked
        await write(store, "r1", "r2")
        found = await ask(admin, "audit.stats")
        assert (found["records"], found["kinds"], found["verdicts"], found["codes"]) == (
            4,
            {"admin": 2, "outcome": 2},
            {"allow": 2, "deny": 2},
            {"denied": 2, "read": 2},
        )
        assert (found["first_time"], found["last_time"]) == (
            "2027-01-15T08:00:00.000Z",
            "2027-01-15T08:00:01.000Z",
        )


async def test_a_log_that_somebody_changed_is_told_with_its_first_bad_record(
    tmp_path: Path,
) -> None:
    async with opened(tmp_path) as (_, store):
        await write(store, "r1", "r2", "r3")
    async with opened(tmp_path) as (admin, store):
        sound = await ask(admin, "audit.verify")
        assert (sound["ok"], sound["finding"], sound["records"]) == (True, "ok", 3)
        note = await asyncio.to_thread(_tampered, tmp_path)
        found = await ask(admin, "audit.verify", checkpoints=[["kept", note]])
        assert (found["ok"], found["finding"], found["first_bad"]) == (False, "altered", 1)


async def test_what_a_verification_found_is_on_record_with_whoever_asked(tmp_path: Path) -> None:
    async with opened(tmp_path) as (admin, store):
        await write(store, "r1", "r2")
    async with opened(tmp_path) as (admin, store):
        assert await ask(admin, "audit.verified") is None
        found = await ask(admin, "audit.verify")
        assert (found["recorded"], found["took_s"] >= 0) == (True, True)
        told = await ask(admin, "audit.verified")
        assert (told["ok"], told["by"]) == (True, AUDITOR.name)
        assert told["said"].startswith("2 records, 2 signed")
        note = await asyncio.to_thread(_tampered, tmp_path)
        await ask(admin, "audit.verify", checkpoints=[["kept", note]])
        told = await ask(admin, "audit.verified")
        assert (told["ok"], "good: 1 records" in told["said"]) == (False, True)
        (record, *_) = await ask(admin, "audit.query", code="log_altered")
        assert (record["id"], record["method"]) == (told["record"], "audit.verify")


async def test_a_log_that_cannot_be_written_is_verified_all_the_same(tmp_path: Path) -> None:
    async with opened(tmp_path) as (admin, _):
        desk = admin._posts["audit.verify"].__self__  # type: ignore[attr-defined]

        async def cannot(*_: object) -> None:
            raise AuditUnavailable("the log cannot be written")

        desk._journal.found = cannot
        found = await ask(admin, "audit.verify")
        assert (found["ok"], found["recorded"]) == (True, False)


def _tampered(data_dir: Path) -> str:
    connection = sqlite3.connect(data_dir / DATABASE)
    connection.execute("DROP TRIGGER audit_is_never_updated")
    connection.execute("UPDATE audit SET body = replace(body, 'deny', 'give') WHERE leaf_index = 1")
    connection.commit()
    (note,) = connection.execute("SELECT note FROM checkpoints ORDER BY size DESC").fetchone()
    connection.close()
    return str(note)


async def test_a_value_is_found_by_the_hash_that_stands_in_its_record(tmp_path: Path) -> None:
    async with opened(tmp_path) as (admin, store):
        await write(store, "r1")
        hashed = await ask(admin, "audit.hash", content={"to": "x"})
        (record,) = await ask(admin, "audit.query", server="mail")
        assert (hashed["json"], hashed["bytes"]) == (record["arguments_hmac"], None)
        text = await ask(admin, "audit.hash", content="x")
        assert (text["json"][:3], text["bytes"][:3]) == ("h1:", "b1:")


@pytest.mark.parametrize("person", [USER, APPROVER, STRANGER])
async def test_nobody_else_reads_the_log(tmp_path: Path, person: Any) -> None:
    async with opened(tmp_path) as (admin, _):
        for command, arguments in {
            "audit.query": b"{}",
            "audit.explain": b'{"decision": "d"}',
            "audit.show": b'{"record": "r"}',
            "audit.stats": b"{}",
            "audit.lag": b"{}",
            "audit.verify": b"{}",
            "audit.verified": b"{}",
            "audit.hash": b'{"content": 1}',
            "audit.ask": b'{"question": "top"}',
            "audit.questions": b"{}",
        }.items():
            with pytest.raises(Forbidden):
                await admin.commands.run(person, command, arguments)  # type: ignore[misc]
        for command in ("audit.tail", "audit.export"):
            with pytest.raises(Forbidden):
                await anext(admin.commands.run(person, command, b"{}"))  # type: ignore[arg-type]
