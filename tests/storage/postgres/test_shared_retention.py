"""Old records leave a log in PostgreSQL by the laws that stand in its tables, and nobody's hold is missed."""

import asyncio
import itertools
from collections.abc import AsyncIterator, Iterator, Mapping
from contextlib import asynccontextmanager, closing
from pathlib import Path
from typing import Any

import psycopg
import pytest

from gateway.audit.checkpoint import VerifierKey
from gateway.domain.audit import AuditRecord, LogEntry, RecordKind
from gateway.storage.cursors import DurableCursors
from gateway.storage.index_tables import PARTITION
from gateway.storage.postgres.connection import Connection, connect
from gateway.storage.postgres.following import PostgresTurn
from gateway.storage.postgres.locks import Lock
from gateway.storage.postgres.log_views import PostgresLog, PostgresRetention
from gateway.storage.postgres.sequencer import Pace, Sequencer
from gateway.storage.retention import SEGMENT_RECORDS, NotRemovable
from gateway.storage.tree import Pruned
from gateway.storage.verify import Finding, Verification
from gateway.turns import Line
from tests.storage.postgres.shared import KEY, blocked, ordered, replica
from tests.storage.suite import NOW

SOON = Pace(step=0.01, sign=0.02, keep=0.05, lease=0.5, turn=0.5)
DAY_US = 86_400_000_000
BEFORE = int(NOW * 1e6) - DAY_US
OLD, NEW = 700, 100
COUNT = itertools.count()
UNSIGNED = (
    "SET session_replication_role = replica; DELETE FROM checkpoints WHERE size > 300;"
    "RESET session_replication_role"
)


def at(time: float, name: str) -> AuditRecord:
    return AuditRecord(kind=RecordKind.OUTCOME, time=time, id=name, fields={"server": "mail"})


class Keeper:
    """Retention of a log that is being ordered."""

    def __init__(self, log: PostgresLog, made: Any, folder: Path) -> None:
        self.log = log
        self._made = made
        with closing(log.reader()) as reader:
            self.verifier = VerifierKey.of(reader.log_id, KEY)
        self.retention = log.retention(
            verifier=self.verifier,
            key=KEY,
            archive=folder / "archive",
            record=self.record,
            turn=Line(),
        )

    async def record(self, code: str, message: str, evidence: Mapping[str, Any]) -> LogEntry:
        fields = {
            "code": code,
            "reasons": [{"code": code, "message": message}],
            "evidence": dict(evidence),
        }
        name = f"{code}-{next(COUNT)}"
        entry: LogEntry = await self._made.ledger.append(
            AuditRecord(kind=RecordKind.SYSTEM, time=NOW, id=name, fields=fields)
        )
        return entry

    def verified(self) -> Verification:
        return self.log.verify(self.verifier)


@asynccontextmanager
async def keeper(address: str, folder: Path) -> AsyncIterator[Keeper]:
    """700 records of last week and 100 of today, signed at two sizes, and whoever orders what follows."""
    async with replica(address) as made:
        for part in (range(300), range(300, OLD + NEW)):
            times = [NOW - 7 * 86_400 if n < OLD else NOW for n in part]
            await asyncio.gather(
                *(made.ledger.append(at(t, f"e{n}")) for n, t in zip(part, times, strict=True))
            )
            ordered(address)
        sequencer = Sequencer(address, "one", key=KEY, pace=SOON)
        sequencer.start()
        try:
            with closing(PostgresLog(address)) as log:
                yield Keeper(log, made, folder)
        finally:
            sequencer.close()


@pytest.fixture
async def kept(address: str, tmp_path: Path) -> AsyncIterator[Keeper]:
    async with keeper(address, tmp_path) as keep:
        yield keep


def leaves(owner: Connection) -> list[int]:
    return [leaf for (leaf,) in owner.execute("SELECT leaf_index FROM audit ORDER BY 1").fetchall()]


async def test_what_is_archived_leaves_the_log_and_the_rest_is_proven(
    kept: Keeper, owner: Connection, tmp_path: Path
) -> None:
    (segment,) = await kept.retention.archive(BEFORE)
    assert (segment.first, segment.stop) == (0, 512)
    removed = await kept.retention.prune(BEFORE)
    assert (removed.first, removed.stop) == (0, 512)
    assert leaves(owner)[0] == 512
    found = kept.verified()
    assert (found.finding, found.reason, found.front) == (Finding.OK, "", 512)
    assert found.unproven == 1  # the checkpoint of 300
    path = tmp_path / "archive" / segment.path
    assert kept.log.segment_verified(path, kept.verifier).ok
    with closing(kept.log.reader()) as reader:
        assert len(reader.consistency(256, found.signed)) > 0
        with pytest.raises(Pruned, match="to 299 have left the log"):
            reader.consistency(300, found.signed)
        assert reader.find("e0") is None
        assert reader.inclusion("e600").leaf_index == 600
    path.write_text(path.read_text().replace("e17\\", "x17\\"))
    assert kept.log.segment_verified(path, kept.verifier).reason == "record 17 was changed"


async def refused(keep: Keeper, why: str) -> None:
    with pytest.raises(NotRemovable, match=why):
        await keep.retention.prune(BEFORE)


async def test_what_is_not_archived_held_or_not_followed_stays(
    kept: Keeper, owner: Connection
) -> None:
    cursors = DurableCursors(kept.log.jobs)  # type: ignore[arg-type]
    await refused(kept, "records 0 to 511 are in no archive yet")
    await kept.retention.archive(BEFORE)
    await cursors.move("siem", 510)
    await refused(kept, "siem has had no records after 510 yet")
    await cursors.move("siem", 511)
    assert await cursors.cursor("siem") == 511
    assert await kept.retention.hold("trial", BEFORE - 30 * DAY_US) == 0
    with pytest.raises(ValueError, match="there is a hold trial already"):
        await kept.retention.hold("trial", BEFORE)
    await refused(kept, "trial holds the records from 0 on")
    await kept.retention.release("trial")
    with pytest.raises(ValueError, match="no hold of that name"):
        await kept.retention.release("trial")
    assert await kept.retention.holds() == []
    await kept.retention.prune(BEFORE)
    assert leaves(owner)[0] == 512
    with pytest.raises(psycopg.errors.IntegrityError, match="a hold is of what is in the log"):
        owner.execute("INSERT INTO holds VALUES ('late', 511)")


@pytest.mark.parametrize(
    "sql",
    [
        "DELETE FROM audit WHERE leaf_index = 0",
        "UPDATE audit SET verdict = 'allow' WHERE leaf_index = 600",
        "UPDATE log_front SET first = 256",
        "UPDATE log_front SET first = 100",
        "UPDATE log_front SET one = false",
        "DELETE FROM log_front",
        "TRUNCATE log_front",
        "SELECT prune_1(256)",
        "INSERT INTO holds VALUES ('h', 5); UPDATE holds SET first = 600",
    ],
)
async def test_the_tables_refuse_what_is_not_removed_by_their_laws(
    kept: Keeper, owner: Connection, sql: str
) -> None:
    with pytest.raises(psycopg.Error):
        owner.execute(sql.encode())
    assert leaves(owner)[:800] == list(range(800))


@pytest.mark.parametrize(
    ("sql", "front"),
    [
        ("SELECT 1", 257),
        ("INSERT INTO holds VALUES ('a', 1000), ('b', 100)", 256),
        ("INSERT INTO cursors (name, leaf_index) VALUES ('siem', 254)", 256),
        (UNSIGNED, 512),
        ("DELETE FROM archives", 256),
    ],
    ids=["part of a tile", "held", "not followed", "not signed", "not archived"],
)  # fmt: skip
async def test_the_table_keeps_to_each_of_its_laws(
    address: str, tmp_path: Path, owner: Connection, sql: str, front: int
) -> None:
    async with keeper(address, tmp_path) as keep:
        await keep.retention.archive(BEFORE)
    for statement in sql.split(";"):
        owner.execute(statement.encode())
    with pytest.raises(psycopg.errors.IntegrityError, match="may not leave the log"):
        owner.execute("SELECT prune_1(%s)", (front,))
    assert leaves(owner)[0] == 0


async def test_a_hold_that_is_under_way_counts(
    kept: Keeper, address: str, owner: Connection
) -> None:
    await kept.retention.archive(BEFORE)
    with closing(connect(address, application="test holds")) as holder:
        with holder.transaction():
            holder.execute("INSERT INTO holds VALUES ('trial', 5)")
            pruning = asyncio.create_task(kept.retention.prune(BEFORE))
            assert await blocked(owner, pruning, at=1), "it did not wait for the hold"
        with pytest.raises(NotRemovable, match="may not leave the log"):
            await pruning
    assert leaves(owner)[0] == 0


async def test_a_row_alone_is_no_archive_and_a_file_is_read_before_its_records_leave(
    kept: Keeper, owner: Connection, tmp_path: Path
) -> None:
    owner.execute("INSERT INTO archives VALUES (0, 65536, '/nowhere', '', 0)")
    await refused(kept, "/nowhere is not the archive of the records from 0 on")
    owner.execute("DELETE FROM archives")
    (segment,) = await kept.retention.archive(BEFORE)
    await Keeper(kept.log, kept._made, tmp_path).retention.prune(BEFORE)
    assert leaves(owner)[0] == segment.stop == 512


async def test_while_another_replica_removes_nothing_is_archived_or_removed(
    kept: Keeper, address: str
) -> None:
    other = PostgresTurn(address, Lock.KEEP)
    assert other.tried()
    for what in (kept.retention.archive, kept.retention.prune):
        with pytest.raises(NotRemovable, match="another gateway"):
            await what(BEFORE)
    other.close()
    assert await kept.retention.archive(BEFORE)


async def test_what_another_replica_has_archived_meanwhile_is_archived_once(
    kept: Keeper, owner: Connection, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The lock that keeps others away goes with its connection, and is not looked at in between."""
    run = kept.log.jobs.run

    async def later(job: Any) -> Any:
        owner.execute("INSERT INTO archives VALUES (0, 512, 'there', '', 0)")
        return await run(job)

    monkeypatch.setattr(kept.log.jobs, "run", later)
    with pytest.raises(NotRemovable, match="records from 0 on are archived already"):
        await kept.retention.archive(BEFORE)
    assert owner.execute("SELECT path FROM archives").fetchall() == [("there",)]


def test_partitions_go_as_a_whole(address: str, owner: Connection) -> None:
    with owner.transaction():
        owner.execute("SET LOCAL session_replication_role = replica")
        owner.execute("UPDATE tree SET size = %s", (PARTITION + 3,))
        owner.execute("SELECT make_room_1()")
        owner.execute("CREATE TABLE audit_0 PARTITION OF audit FOR VALUES FROM (0) TO (262144)")
        for leaf in (0, 300, PARTITION - 1, PARTITION, PARTITION + 2):
            owner.execute(
                "INSERT INTO audit (leaf_index, id, time_us, kind, leaf_hash, lane, n, body)"
                " VALUES (%s, 'x', 0, 'x', '', 0, %s, '{}')",
                (leaf, leaf),
            )
        owner.execute("INSERT INTO checkpoints VALUES (%s, '', 0, '')", (PARTITION + 3,))
        owner.execute("INSERT INTO archives VALUES (0, %s, '', '', 0)", (PARTITION,))
    owner.execute("SELECT prune_1(256)")
    assert leaves(owner)[0] == 300
    owner.execute("SELECT prune_1(%s)", (PARTITION,))
    assert leaves(owner) == [PARTITION, PARTITION + 2]
    assert owner.execute("SELECT pg_relation_size('audit_0')").fetchall() == [(0,)]


def test_a_removal_takes_steps_that_end_with_partitions(address: str) -> None:
    with closing(PostgresLog(address)) as log:
        retention = PostgresRetention(
            log, verifier=None, key=KEY, archive=Path(), record=None, turn=Line()
        )

        def stops(first: int, stop: int) -> Iterator[int]:
            return retention._stops(first, stop)

        assert list(stops(0, 512)) == [512]
        assert list(stops(0, 2 * PARTITION + 512)) == [
            PARTITION,
            2 * PARTITION,
            2 * PARTITION + 512,
        ]
        assert list(stops(PARTITION - 256, PARTITION + 256)) == [PARTITION, PARTITION + 256]
        assert list(stops(256, 256 + SEGMENT_RECORDS + 256)) == [
            256 + SEGMENT_RECORDS,
            512 + SEGMENT_RECORDS,
        ]
