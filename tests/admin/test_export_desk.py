"""What leaves the log proves itself, is on record, and is for auditors and admins only."""

import json
from collections.abc import AsyncIterator, Collection, Sequence
from contextlib import asynccontextmanager, closing
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from gateway.admin.exporting import ExportDesk
from gateway.audit.bundle import BundleCheck, BundleVerification
from gateway.errors import AuditUnavailable, BadCommand, Forbidden, NotFound
from gateway.storage.bundles import BundleReader
from gateway.storage.connection import open_reader
from gateway.storage.database import DATABASE, Database
from gateway.storage.keeping import Keeping
from gateway.storage.store import Store
from gateway.storage.writer import EVERY_SECOND, Signing
from tests.admin.world import ADMIN, APPROVER, AUDITOR, STRANGER, USER, new_journal
from tests.storage.logged import NOW, append, made, refused, write


@dataclass
class Following:
    name: str
    done: int
    failing: str = ""


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
    with closing(store.reader()) as reader:
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


async def test_records_come_with_the_text_that_was_hashed(tmp_path: Path) -> None:
    await write(tmp_path, [*made("1"), *refused("2")])
    async with desk_in(tmp_path) as (desk, store):
        got = [line async for line in desk.records(AUDITOR, where="verdict = deny")]
        with closing(store.reader()) as reader:
            (stored,) = reader.stored_after(1, 1)
        assert got == [
            {
                "leaf_index": 2,
                "leaf_hash": stored.leaf_hash.hex(),
                "body": stored.body.decode(),
            }
        ]
        assert newest(store)["reasons"] == [{"code": "read", "message": "where"}]


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


@pytest.mark.parametrize("asked", [{"since": "soon"}, {"where": "("}, {"where": "made_up = 1"}])
async def test_what_cannot_be_read_is_refused_and_is_no_read(
    tmp_path: Path, asked: dict[str, str]
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


async def test_everybody_who_gets_the_record_is_listed(tmp_path: Path) -> None:
    await write(tmp_path, [*made("1"), *made("2")])
    at_work = [Following("export a", 3), Following("export b", 1, "it is away")]
    configured = {"export a", "export b", "export c"}
    async with desk_in(tmp_path, configured=configured, at_work=at_work) as (desk, store):
        await store.cursors.move("export old", 0)
        assert await desk.list(AUDITOR) == [
            {"name": "export a", "state": "ok", "done": 3, "behind": 0, "error": ""},
            {"name": "export b", "state": "failing", "done": 1, "behind": 2, "error": "it is away"},
            {"name": "export c", "state": "not running", "done": -1, "behind": 4, "error": ""},
            {"name": "export old", "state": "not configured", "done": 0, "behind": 3, "error": ""},
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
