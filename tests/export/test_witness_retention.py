"""What retention removes is never what a witness has to be shown."""

import sqlite3
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

from gateway.domain.audit import AuditRecord, LogEntry, RecordKind
from gateway.ports.following import NotDelivered
from gateway.storage.database import DATABASE
from gateway.storage.retention import NotRemovable, Retention
from tests.export.test_witness import rig_in
from tests.export.witness import Witness, witnessing
from tests.storage.logged import NOW


async def test_retention_waits_for_a_witness_and_what_is_gone_is_no_alarm(
    tmp_path: Path,
) -> None:
    with witnessing(Witness()) as witness:
        async with rig_in(tmp_path, witness) as rig:
            store = rig.store

            async def record(code: str, message: str, evidence: Any) -> LogEntry:
                fields = {"code": code, "evidence": dict(evidence)}
                return await store.audit.append(
                    AuditRecord(kind=RecordKind.SYSTEM, time=NOW + 9, id=code, fields=fields)
                )

            retention = Retention(
                tmp_path,
                store.writer,
                verifier=store.verifier,
                key=store.keys.audit,
                archive=tmp_path / "archive",
                record=record,
                turn=store.aging,
            )
            await rig.grow(300)
            assert await rig.follower.step()
            await rig.grow(300)
            await retention.archive(int((NOW + 9) * 1e6))
            with pytest.raises(NotRemovable, match="witness w1 has had no records after 299 yet"):
                await retention.prune(int((NOW + 9) * 1e6))
            await store.cursors.move("witness w1", 511)  # as if it were there, which it is not
            await retention.prune(int((NOW + 9) * 1e6))
            await rig.grow(1)
            with pytest.raises(NotDelivered, match=r"retention has removed .* another witness"):
                await rig.asked()
            assert rig.alarms == []


async def test_a_witness_at_the_front_of_the_log_is_shown_the_growth_from_there(
    tmp_path: Path,
) -> None:
    with witnessing(Witness()) as witness:
        async with rig_in(tmp_path, witness) as rig:
            await rig.grow(300)
            assert await rig.follower.step()
            with closing(sqlite3.connect(tmp_path / DATABASE)) as connection, connection:
                connection.execute(
                    "INSERT INTO archives (first, stop, path, sha256, made_us) VALUES (0, 256, '', '', 0)"
                )
                connection.execute("UPDATE log_front SET first = 256")
                connection.execute("DELETE FROM audit WHERE leaf_index < 256")
            await rig.grow(400)
            assert await rig.follower.step()
            assert [(old, size) for old, _, size in witness.asked] == [(0, 300), (300, 700)]
