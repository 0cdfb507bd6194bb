"""A database that is restored to an earlier moment: what the log says then, and what is so again."""

import tempfile
import time
from collections.abc import Iterator
from contextlib import closing, contextmanager
from pathlib import Path

import psycopg
import pytest

from gateway.domain.audit import AuditRecord, RecordKind
from gateway.storage.postgres.connection import Connection, connect
from gateway.storage.postgres.log_views import PostgresLog
from gateway.storage.postgres.stores import PostgresStores
from gateway.storage.verify import Finding
from tests.postgres import Postgres, give_to_owner, program, ran, require, running, started
from tests.storage.postgres.test_joining import joined
from tests.storage.suite import NOW

PATIENCE_S = 60.0
SO = "SELECT (SELECT version FROM runs), (SELECT state FROM approvals), (SELECT count(*) FROM revoked_tokens)"


@pytest.fixture
def places() -> Iterator[tuple[Path, Path, Path]]:
    """A server's folder, that of the one that is restored, and where the write-ahead log is archived."""
    require()
    with tempfile.TemporaryDirectory(prefix="douane-restored-") as folder:
        whole = Path(folder)
        whole.chmod(0o755)
        found = (whole / "one", whole / "other", whole / "archive")
        for each in found:
            each.mkdir()
            give_to_owner(each)
        yield found


@contextmanager
def archiving(folder: Path, archive: Path) -> Iterator[Postgres]:
    settings = {"archive_mode": "on", "archive_command": f"cp %p {archive}/%f", "fsync": "off"}
    with running(folder, settings) as server:
        yield server


@contextmanager
def restored(folder: Path, archive: Path, moment: str) -> Iterator[Postgres]:
    (folder / "data" / "recovery.signal").touch()
    give_to_owner(folder / "data" / "recovery.signal")
    settings = {
        "restore_command": f"cp {archive}/%f %p",
        "recovery_target_time": moment,
        "recovery_target_action": "promote",
        "fsync": "off",
    }
    with started(folder, settings) as server:
        yield server


async def recorded(stores: PostgresStores, *names: str) -> None:
    for name in names:
        record = AuditRecord(kind=RecordKind.SYSTEM, time=NOW, id=name, fields={})
        await stores.audit.append(record)
    await stores.sign()


def archived(owner: Connection) -> None:
    """Return once the write-ahead log is archived up to now."""
    (segment,) = owner.execute("SELECT pg_walfile_name(pg_switch_wal())").fetchall()[0]
    deadline = time.monotonic() + PATIENCE_S
    while time.monotonic() < deadline:
        last = owner.execute("SELECT last_archived_wal FROM pg_stat_archiver").fetchone()
        if last is not None and (last[0] or "") >= segment:
            return
        time.sleep(0.05)
    raise AssertionError("nothing is archived")


def promoted(address: str) -> None:
    """Return once the server has recovered, and can be written to."""
    deadline = time.monotonic() + PATIENCE_S
    while time.monotonic() < deadline:
        with psycopg.connect(address) as aside:
            if aside.execute("SELECT pg_is_in_recovery()").fetchone() == (False,):
                return
        time.sleep(0.05)
    raise AssertionError("it did not come to its moment")


async def test_a_restored_database_is_good_up_to_its_moment_and_says_what_it_lacks(
    places: tuple[Path, Path, Path], tmp_path: Path
) -> None:
    folder, other, archive = places
    with archiving(folder, archive) as server:
        address = server.fresh()
        name = address.partition("@/")[2].partition("?")[0]
        async with joined(address, tmp_path / "own") as stores:
            await recorded(stores, "before the copy")
            ran(
                *(program("pg_basebackup"), "-D", other / "data", "-h", folder, "-U", "postgres"),
                *("-c", "fast", "-X", "none", "--no-manifest"),
            )
            with closing(connect(address, application="test")) as owner:
                owner.execute(
                    "INSERT INTO runs (id, owner, integrity, confidentiality) VALUES ('r', 'o', 1, 0)"
                )
                owner.execute(
                    "INSERT INTO approvals VALUES ('a', 'allowed', 'once', 9e9, '', '', '', '', NULL, '', 1, 0, '')"
                )
                await recorded(stores, "after the copy")
                ((moment,),) = owner.execute("SELECT clock_timestamp()::text").fetchall()
                # From here on: a raise, the use of a yes, a revocation.
                owner.execute("UPDATE runs SET confidentiality = 3, version = version + 1")
                owner.execute("UPDATE approvals SET state = 'used'")
                owner.execute("INSERT INTO revoked_tokens VALUES ('t', 9e9)")
                await recorded(stores, "lost", "lost as well")
                assert owner.execute(SO).fetchone() == (1, "used", 1)
                ((kept,),) = owner.execute(
                    "SELECT note FROM checkpoints ORDER BY size DESC LIMIT 1"
                ).fetchall()
                archived(owner)
    with restored(other, archive, moment) as server:
        address = server.address(name)
        promoted(address)
        with closing(connect(address, application="test")) as owner:
            assert owner.execute(SO).fetchone() == (0, "allowed", 0)
        async with joined(address, tmp_path / "again") as stores:
            with closing(PostgresLog(address)) as log:
                found = log.verify(stores.verifier)
                assert (found.finding, found.size) == (Finding.OK, 2)
                lacks = log.verify(stores.verifier, checkpoints=[("kept", kept)])
                assert (lacks.finding, lacks.first_bad) == (Finding.INCOMPLETE, 2)
            await recorded(stores, "another one", "and others")
            with closing(PostgresLog(address)) as log:
                # The same number of records by now, and others: the old checkpoint will never hold again.
                forked = log.verify(stores.verifier, checkpoints=[("kept", kept)])
                assert forked.finding is Finding.ALTERED
