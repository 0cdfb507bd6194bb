"""Parts of which tests of the log in PostgreSQL are made."""

import asyncio
import time
from collections.abc import AsyncIterator, Iterator, Sequence
from contextlib import asynccontextmanager, closing, contextmanager
from typing import Any

from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

from gateway.audit.checkpoint import VerifierKey
from gateway.domain.audit import AuditRecord, RecordKind
from gateway.domain.flow import RunId, Source
from gateway.domain.labels import Confidentiality, Integrity, Label
from gateway.domain.premises import Premises
from gateway.storage.postgres.connection import Connection, Session, connect
from gateway.storage.postgres.lanes import Lanes
from gateway.storage.postgres.ledger import PostgresLedger
from gateway.storage.postgres.reading import PostgresLogReader, verify_log
from gateway.storage.postgres.run_table import PostgresRunLedger
from gateway.storage.postgres.sequencer import Leader, lead
from gateway.storage.postgres.shared_runs import SharedRuns
from gateway.storage.postgres.terms import Raise
from gateway.storage.runs import RunNames
from gateway.storage.verify import Finding, Verification
from tests.audit.encoders import encoder_of
from tests.storage.suite import NOW, RUN_LIMITS, Elapsed

KEY = Ed25519PrivateKey.from_private_bytes(bytes(range(32)))
POLICY = "sha256:now"
PATIENCE_S = 60.0


class Replica:
    """One gateway's end of the log: its lanes, its memory of runs, its ledger."""

    def __init__(
        self, address: str, name: str, *, elapsed: Elapsed | None = None, **more: Any
    ) -> None:
        settings: dict[str, Any] = {"deadline_s": PATIENCE_S, **more}
        self.lanes = Lanes(address, replica=name, **settings)
        self.session = Session(address, application=f"test {name}", patience_s=PATIENCE_S)
        self.elapsed = elapsed or Elapsed()
        table = PostgresRunLedger(self.session, name)
        kept, belonging = table.all()
        names = RunNames(b"k" * 32)
        self.runs = SharedRuns(
            table, names, limits=RUN_LIMITS, elapsed=self.elapsed, kept=kept, belonging=belonging
        )
        self.ledger = PostgresLedger(self.lanes, encoder_of(), runs=self.runs, begin=self.runs.join)


@asynccontextmanager
async def replica(address: str, name: str = "one", **more: Any) -> AsyncIterator[Replica]:
    made = Replica(address, name, **more)
    with closing(made.session):
        await made.lanes.open()
        try:
            yield made
        finally:
            await made.lanes.close()


def record(name: str, kind: RecordKind = RecordKind.INTENT, **fields: Any) -> AuditRecord:
    return AuditRecord(kind=kind, time=NOW, id=name, fields=fields)


def resting_on(run: str, version: int = 0, **more: Any) -> Premises:
    given = {"people": 0, **more}
    return Premises(run=RunId(run), version=version, policy=POLICY, **given)


def label(integrity: int, confidentiality: int) -> Label:
    return Label(integrity=Integrity(integrity), confidentiality=Confidentiality(confidentiality))


def raising(
    run: str,
    integrity: int = 0,
    confidentiality: int = 3,
    *,
    tool: str = "fetch",
    server: str = "web",
) -> Raise:
    given = label(integrity, confidentiality)
    source = Source(server=server, tool=tool, record="r", label=given)
    return Raise(run=RunId(run), label=given, source=source)


def with_runs(owner: Connection, *runs: str) -> None:
    """Put `POLICY` in force, and have whole runs: `NAME`, or `NAME/OWNER`, or `NAME/OWNER/WHOLE`.

    Their calls have been made at several gateways already, so that it does not matter at which.
    """
    owner.execute("UPDATE in_force SET policy = %s", (POLICY,))
    for each in runs:
        name, of, part_of = (*each.split("/"), "", "")[:3]
        owner.execute(
            "INSERT INTO runs (id, owner, part_of, integrity, confidentiality, roamed)"
            " VALUES (%s, %s, nullif(%s, ''), 1, 0, true)",
            (name, of or name, part_of),
        )


def in_tray(owner: Connection) -> Sequence[str]:
    rows = owner.execute("SELECT id FROM tray ORDER BY lane, n")
    return [name for (name,) in rows.fetchall()]


def label_of(owner: Connection, run: str) -> tuple[int, int]:
    ((integrity, confidentiality),) = owner.execute(
        "SELECT integrity, confidentiality FROM runs WHERE id = %s", (run,)
    ).fetchall()
    return integrity, confidentiality


def leading(connection: Connection, name: str = "leader", *, lease_s: float = 0.0) -> Leader:
    found = lead(connection, name, key=KEY, lease_s=lease_s)
    assert found is not None
    return found


def following(connection: Connection) -> Leader:
    """Return the leader that `connection` is once nobody else leads.

    Whoever was killed leads until the server has noticed, or its lease has ended.
    """
    patience = time.monotonic() + PATIENCE_S
    while (found := lead(connection, "leader", key=KEY, lease_s=0.0)) is None:
        assert time.monotonic() < patience, "another one still leads"
        time.sleep(0.01)
    return found


def ordered(address: str) -> Verification:
    """Take in and sign what is durable, and verify everything."""
    with closing(connect(address, application="test order")) as connection:
        leader = following(connection)
        while leader.step():
            pass
        leader.sign()
    return verified(address)


def verified(address: str) -> Verification:
    with closing(connect(address, application="test verify")) as connection:
        with closing(PostgresLogReader.open(address)) as reader:
            log_id = reader.log_id
        found = verify_log(connection, VerifierKey.of(log_id, KEY))
    assert found.finding is Finding.OK, found.reason
    return found


async def blocked(owner: Connection, *tasks: "asyncio.Future[Any]", at: int) -> bool:
    """Wait until `at` statements wait for a lock, and say so; or else until one of `tasks` is done."""
    with_patience = time.monotonic() + PATIENCE_S
    while time.monotonic() < with_patience:
        ((waiting,),) = owner.execute(
            "SELECT count(*) FROM pg_stat_activity WHERE datname = current_database()"
            " AND wait_event_type = 'Lock'"
        ).fetchall()
        if waiting >= at:
            return True
        if any(task.done() for task in tasks):
            return False
        await asyncio.sleep(0.01)
    raise AssertionError("nothing waited, and nothing was done")


@contextmanager
def commits_held(address: str) -> Iterator[None]:
    """Let no `put` come to its end, after it has looked, used up and raised."""
    with closing(connect(address, application="test holds")) as holder, holder.transaction():
        holder.execute("LOCK TABLE tray_0, tray_1, tray_2 IN SHARE MODE")
        yield
