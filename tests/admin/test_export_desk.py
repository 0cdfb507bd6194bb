"""What leaves the log proves itself, is on record, and is for auditors and admins only."""

import json
import sqlite3
from collections.abc import AsyncIterator, Collection, Sequence
from contextlib import asynccontextmanager, closing
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from gateway.admin.exporting import ExportDesk
from gateway.audit.bundle import BundleCheck, BundleVerification
from gateway.audit.cosignature import Witnessed, WitnessKey
from gateway.errors import AuditUnavailable, BadCommand, Forbidden, NotFound
from gateway.ports.following import Refused
from gateway.storage.bundles import BundleReader
from gateway.storage.connection import open_reader
from gateway.storage.cosignatures import DurableCosignatures
from gateway.storage.database import DATABASE, Database
from gateway.storage.following import reading
from gateway.storage.keeping import Keeping
from gateway.storage.store import Store
from gateway.storage.writer import EVERY_SECOND, Signing
from tests.admin.world import ADMIN, APPROVER, AUDITOR, STRANGER, USER, new_journal
from tests.export.witness import Witness
from tests.storage.logged import NOW, append, made, refused, write


@dataclass
class Following:
    name: str
    done: int
    failing: str = ""
    refused: Refused | None = None
    taken_meanwhile: bool = False

    async def skip(self, leaf_index: int) -> None:
        if self.taken_meanwhile:
            self.refused = None
            raise LookupError(leaf_index)
        self.done = leaf_index


@asynccontextmanager
async def desk_in(
    folder: Path,
    *,
    configured: Collection[str] = (),
    at_work: Sequence[Following] = (),
    signing: Signing = EVERY_SECOND,
) -> AsyncIterator[tuple[ExportDesk, Store]]:
    store = await Store.open(folder, clock=lambda: NOW, keeping=Keeping(signing=signing))
    try:
        with closing(BundleReader(open_reader(folder / DATABASE))) as reader:
            yield (
                ExportDesk(
                    reader,
                    store.cursors,
                    new_journal(store.audit),
                    key=store.verifier,
                    sign=store.writer.sign,
                    configured=lambda: configured,
                    at_work=lambda: at_work,
                    hashes_of=store.hashes_of,
                    clock=lambda: NOW,
                ),
                store,
            )
    finally:
        await store.close()


async def lines_of(desk: ExportDesk, **asked: str) -> list[bytes]:
    return [
        json.dumps(line, ensure_ascii=False).encode() + b"\n"
        async for line in desk.bundle(AUDITOR, **asked)
    ]


async def checked(desk: ExportDesk, store: Store, **asked: str) -> BundleVerification:
    return BundleCheck(store.verifier).run(await lines_of(desk, **asked))


def newest(store: Store) -> dict[str, Any]:
    with closing(store.log.reader()) as reader:
        (record,) = reader.after(reader.newest() - 1)
    return record


async def test_the_whole_log_proves_itself_with_checkpoints_on_the_way(tmp_path: Path) -> None:
    for part in range(3):
        calls = [event for number in range(600) for event in made(f"{part}{number}")]
        await write(tmp_path, calls, begin=part * 1200)
    async with desk_in(tmp_path) as (desk, store):
        lines = await lines_of(desk)
        found = BundleCheck(store.verifier).run(lines)
        # A slow machine signs more often, and what the export itself recorded may be signed too.
        assert (found.ok, found.first, found.gaps) == (True, 0, 0)
        assert found.records >= 3600
        assert 3 <= found.checkpoints <= 5
        assert newest(store)["method"] == "audit.bundle"
        assert newest(store)["reasons"] == [{"code": "read", "message": "every record"}]


async def test_what_is_selected_proves_itself_and_is_all_that_is_there(tmp_path: Path) -> None:
    await write(tmp_path, [*made("1"), *refused("2"), *made("3"), *refused("4", NOW - 99)])
    async with desk_in(tmp_path) as (desk, store):
        lines = await lines_of(desk, where="verdict = deny", since="10s")
        found = BundleCheck(store.verifier).run(lines)
        assert (found.ok, found.records, found.first, found.gaps) == (True, 1, 2, 0)
        header = json.loads(lines[0])
        assert header["selection"] == {"since": "10s", "where": "verdict = deny"}
        assert b"d_000000000000000000000000000001" not in b"".join(lines)
        found = await checked(desk, store, where="verdict = deny")
        assert (found.records, found.gaps) == (2, 2)


async def test_what_witnesses_have_cosigned_is_in_every_export(tmp_path: Path) -> None:
    witness = Witness()
    key = WitnessKey.parse(witness.vkey)
    async with desk_in(tmp_path) as (desk, store):
        shown = DurableCosignatures(store.writer, partial(reading, tmp_path / DATABASE))
        for part, at in (("1", 7), ("2", 8)):
            await append(store, [*made(part), *refused(part)], begin=store.writer.recorded)
            await store.writer.sign()
            size, note = await shown.head() or (0, "")
            line = witness.line(note.rpartition("\n\n")[0] + "\n", at)
            await shown.keep(key.id, size, line)
        for asked in ({}, {"where": "verdict = deny"}, {"where": "code = nothing"}):
            lines = await lines_of(desk, **asked)
            found = BundleCheck(store.verifier, (), [key]).run(lines)
            assert (found.ok, found.checkpoints) == (True, 2)
            assert found.witnessed == (Witnessed(name=witness.name, time=8, size=6),)


async def test_a_checkpoint_that_is_cosigned_at_the_front_of_the_log_is_in_every_export(
    tmp_path: Path,
) -> None:
    witness = Witness()
    key = WitnessKey.parse(witness.vkey)
    async with desk_in(tmp_path) as (desk, store):
        shown = DurableCosignatures(store.writer, partial(reading, tmp_path / DATABASE))
        await append(store, [event for one in range(128) for event in made(str(one))])
        await store.writer.sign()
        size, note = await shown.head() or (0, "")
        await shown.keep(key.id, size, witness.line(note.rpartition("\n\n")[0] + "\n", 7))
        await append(store, made("1"), begin=size)
        with closing(sqlite3.connect(tmp_path / DATABASE)) as connection, connection:
            connection.execute(
                "INSERT INTO archives (first, stop, path, sha256, made_us) VALUES (0, 256, '', '', 0)"
            )
            connection.execute("UPDATE log_front SET first = 256")
            connection.execute("DELETE FROM audit WHERE leaf_index < 256")
        for asked in ({}, {"where": "code = nothing"}):
            found = BundleCheck(store.verifier, (), [key]).run(await lines_of(desk, **asked))
            assert (found.ok, found.reason) == (True, "")
            assert found.witnessed == (Witnessed(name=witness.name, time=7, size=256),)


async def test_records_come_with_the_text_that_was_hashed(tmp_path: Path) -> None:
    await write(tmp_path, [*made("1"), *refused("2")])
    async with desk_in(tmp_path) as (desk, store):
        got = [line async for line in desk.records(AUDITOR, where="verdict = deny")]
        with closing(store.log.reader()) as reader:
            (stored,) = reader.stored_after(1, 1)
        assert got == [
            {
                "leaf_index": 2,
                "leaf_hash": stored.leaf_hash.hex(),
                "body": stored.body.decode(),
            }
        ]
        assert newest(store)["reasons"] == [{"code": "read", "message": "where"}]


async def test_records_come_with_a_header_where_it_is_asked_for(tmp_path: Path) -> None:
    await write(tmp_path, [*made("1"), *refused("2")])
    async with desk_in(tmp_path) as (desk, store):
        got = [line async for line in desk.records(AUDITOR, where="kind = gap", header=True)]
        assert got == [
            {
                "log_id": store.log_id,
                "key": str(store.verifier),
                "size": 3,
                "selection": {"where": "kind = gap"},
            }
        ]


@pytest.mark.parametrize("person", [APPROVER, USER, STRANGER], ids=lambda person: person.name)
async def test_nobody_else_takes_anything_out(tmp_path: Path, person: Any) -> None:
    await write(tmp_path, made("1"))
    async with desk_in(tmp_path) as (desk, _):
        for stream in (desk.bundle(person), desk.records(person)):
            with pytest.raises(Forbidden):
                await anext(stream)
        with pytest.raises(Forbidden):
            await desk.list(person)
        for one in (person, AUDITOR):
            with pytest.raises(Forbidden):
                await desk.forget(one, name="export siem")
            with pytest.raises(Forbidden):
                await desk.skip(one, name="export siem", leaf_index=0)


@pytest.mark.parametrize("asked", [{"since": "soon"}, {"where": "("}, {"where": "made_up = 1"}])
async def test_what_cannot_be_read_is_refused_and_is_no_read(
    tmp_path: Path, asked: dict[str, Any]
) -> None:
    await write(tmp_path, made("1"))
    async with desk_in(tmp_path) as (desk, store):
        for stream in (desk.bundle(AUDITOR, **asked), desk.records(AUDITOR, **asked)):
            with pytest.raises(BadCommand):
                await anext(stream)
        assert newest(store)["kind"] == "outcome"


async def test_what_was_recorded_a_moment_ago_is_in_it_as_well(tmp_path: Path) -> None:
    async with desk_in(tmp_path, signing=Signing(every_s=3600)) as (desk, store):
        await append(store, [*made("1"), *refused("2")])
        found = await checked(desk, store, where="verdict = deny")
        assert (found.ok, found.records, found.size) == (True, 1, 4)
        found = await checked(desk, store)
        assert (found.ok, found.records, found.gaps) == (True, 5, 0)  # and who took the last one


async def test_a_log_that_cannot_be_signed_proves_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with desk_in(tmp_path) as (desk, _):

        def full(_: Database) -> None:
            raise OSError("no space left")

        with monkeypatch.context() as broken:
            broken.setattr(Database, "sign", full)
            with pytest.raises(AuditUnavailable) as failed:
                await anext(desk.bundle(AUDITOR))
            assert "no checkpoint could be signed: no space left" in failed.value.detail
        assert (await lines_of(desk))[1:]
        monkeypatch.setattr(BundleReader, "head", lambda _: None)
        with pytest.raises(NotFound, match="no checkpoint"):
            await anext(desk.bundle(AUDITOR))


def row(name: str, state: str, done: int, behind: int, **more: Any) -> dict[str, Any]:
    known = {"name": name, "state": state, "done": done, "behind": behind}
    return {**known, "error": "", "refused": None, "answer": "", **more}


async def test_everybody_who_gets_the_record_is_listed(tmp_path: Path) -> None:
    await write(tmp_path, [*made("1"), *made("2")])
    refused = Refused(leaf_index=2, answer="status 400")
    at_work = [Following("export a", 3), Following("export b", 1, "it is away", refused)]
    configured = {"export a", "export b", "export c"}
    async with desk_in(tmp_path, configured=configured, at_work=at_work) as (desk, store):
        await store.cursors.move("export old", 0)
        assert await desk.list(AUDITOR) == [
            row("export a", "ok", 3, 0),
            row("export b", "failing", 1, 2, error="it is away", refused=2, answer="status 400"),
            row("export c", "not running", -1, 4),
            row("export old", "not configured", 0, 3),
        ]


async def test_only_what_nobody_follows_is_forgotten_and_that_is_on_record(tmp_path: Path) -> None:
    await write(tmp_path, made("1"))
    at_work = [Following("baselines", 0)]
    async with desk_in(tmp_path, configured={"export a"}, at_work=at_work) as (desk, store):
        for name in ("export a", "baselines", "export old"):
            await store.cursors.move(name, 0)
        for name in ("export a", "baselines"):
            with pytest.raises(BadCommand, match="is at work"):
                await desk.forget(ADMIN, name=name)
        with pytest.raises(NotFound):
            await desk.forget(ADMIN, name="export none")
        assert await desk.forget(ADMIN, name="export old") == {
            "name": "export old",
            "state": "forgotten",
        }
        assert await store.cursors.cursor("export old") is None
        record = newest(store)
        assert (record["method"], record["code"]) == ("audit.exports.forget", "forgotten")


async def test_only_the_record_that_is_refused_is_passed_over_and_that_is_on_record_first(
    tmp_path: Path,
) -> None:
    await write(tmp_path, [*made("1"), *made("2")])
    stuck = Following("export b", 0, "refused", Refused(leaf_index=1, answer="status 400: no"))
    at_work = [Following("export a", 3), stuck]
    async with desk_in(tmp_path, at_work=at_work) as (desk, store):
        size = store.writer.recorded
        with pytest.raises(NotFound):
            await desk.skip(ADMIN, name="export none", leaf_index=1)
        with pytest.raises(BadCommand, match="export b stands at record 1; only that one"):
            await desk.skip(ADMIN, name="export b", leaf_index=2)
        with pytest.raises(BadCommand, match="export a stands at no record that is refused"):
            await desk.skip(ADMIN, name="export a", leaf_index=3)
        assert (store.writer.recorded, stuck.done) == (size, 0)
        assert await desk.skip(ADMIN, name="export b", leaf_index=1) == {
            "name": "export b",
            "state": "skipped",
            "leaf_index": 1,
        }
        record = newest(store)
        assert (record["method"], record["code"]) == ("audit.exports.skip", "skipped")
        assert (record["target"], record["evidence"]) == ("export b", {"leaf_index": 1})
        assert [reason["message"] for reason in record["reasons"]] == [
            "export b has not had record 1",
            "status 400: no",
        ]
        assert stuck.done == 1
        stuck.taken_meanwhile = True
        with pytest.raises(BadCommand, match="at no record"):
            await desk.skip(ADMIN, name="export b", leaf_index=1)
        assert (newest(store)["verdict"], newest(store)["code"]) == ("deny", "bad_command")


async def test_what_cannot_be_recorded_is_not_passed_over(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    await write(tmp_path, made("1"))
    stuck = Following("export b", 0, "refused", Refused(leaf_index=1, answer=""))
    async with desk_in(tmp_path, at_work=[stuck]) as (desk, store):

        async def full(*_: Any, **__: Any) -> None:
            raise AuditUnavailable("the disk is full")

        monkeypatch.setattr(store.audit, "append", full)
        with pytest.raises(AuditUnavailable):
            await desk.skip(ADMIN, name="export b", leaf_index=1)
        assert stuck.done == 0
