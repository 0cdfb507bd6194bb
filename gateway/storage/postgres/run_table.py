"""Runs in PostgreSQL: the same changes as in SQLite, beside the raises of every replica."""

import asyncio
from collections.abc import Callable, Collection, Iterable, Sequence
from typing import Final

import psycopg
from psycopg.errors import DeadlockDetected, SerializationFailure

from gateway.domain.flow import Run, RunId, Source
from gateway.domain.labels import Label
from gateway.domain.scripts import ScriptId
from gateway.errors import AuditUnavailable
from gateway.storage.committer import NOT_RECORDED
from gateway.storage.postgres.connection import Connection, Session
from gateway.storage.postgres.locks import Lock
from gateway.storage.run_changes import Belonging, Change, Kept, OwnerName
from gateway.storage.run_tables import (
    Job,
    forgetting,
    is_time_to_sweep,
    kept_of,
    label_of,
    of_many_parts,
    source_of,
)

_COLUMNS: Final = "id, owner, part_of, integrity, confidentiality, ended, version"
_READ: Final = f"{_COLUMNS}, roamed"
_SOURCE: Final = "server, tool, record, integrity, confidentiality"
_MOST_YIELDS: Final = 8
_NOTED_S: Final = 5.0
"""Within so many seconds it is noted that a run was used."""


class PostgresRunLedger:
    """Makes changes, each in a transaction of its own, one at a time in this process."""

    def __init__(self, session: Session, replica: str) -> None:
        self._session = session
        self._replica = replica
        self._turn = asyncio.Lock()

    async def make(self, job: Job, committed: Callable[[Change], None]) -> Change:
        """Make the change that `job` describes; it is durable on return.

        Raises:
            AuditUnavailable: It did not happen, or is not known to have.

        """
        return await asyncio.shield(self._make(job, committed))

    async def _make(self, job: Job, committed: Callable[[Change], None]) -> Change:
        async with self._turn:
            try:
                change = await asyncio.to_thread(self._made, job)
            except psycopg.Error as error:
                raise AuditUnavailable(NOT_RECORDED, detail=str(error)) from error
            committed(change)
            return change

    def all(self) -> tuple[Sequence[Kept], Sequence[Belonging]]:
        """Return every run, in the order in which they began, and for whom each owner calls.

        Raises:
            AuditUnavailable: They cannot be read now.

        """
        try:
            return self._session.use(_all)
        except psycopg.Error as error:
            raise AuditUnavailable(NOT_RECORDED, detail=str(error)) from error

    def _made(self, job: Job) -> Change:
        for _ in range(_MOST_YIELDS):
            try:
                return self._session.use(lambda connection: self._once(connection, job))
            except (DeadlockDetected, SerializationFailure):
                continue
        return self._session.use(lambda connection: self._once(connection, job))

    def _once(self, connection: Connection, job: Job) -> Change:
        with connection.transaction():
            return job(PostgresRunTable(connection, self._replica))


def _all(connection: Connection) -> tuple[Sequence[Kept], Sequence[Belonging]]:
    with connection.transaction():
        rows = connection.execute(
            "SELECT owner, person FROM run_owners WHERE person <> ''"
            " AND owner IN (SELECT owner FROM runs)"
        )
        belonging = [Belonging(owner=owner, person=person) for owner, person in rows.fetchall()]
        return PostgresRunTable(connection).all(), belonging


class PostgresRunTable:
    """A `RunTable`, within one transaction of READ COMMITTED.

    Whoever looks at the runs of an owner has that owner's lock alone first, until the end of the
    transaction. A raise shares it with other raises: so none is under way meanwhile, and each look sees
    all that were before.
    """

    def __init__(self, connection: Connection, replica: str = "") -> None:
        """`replica` is the gateway at which runs are changed."""
        self._connection = connection
        self._replica = replica

    def all(self) -> Sequence[Kept]:
        """Return every run, in the order in which they began."""
        return self._kept(f"SELECT {_READ} FROM runs ORDER BY began")  # noqa: S608 - fixed text

    def find(self, run: RunId) -> Kept | None:
        row = self._connection.execute("SELECT owner FROM runs WHERE id = %s", (run,)).fetchone()
        if row is None:
            return None
        self._lock(row[0])
        return next(iter(self._where("id = %s", run)), None)

    def parts(self, run: RunId) -> Sequence[Kept]:
        whole = self.find(run)
        return [] if whole is None else self._where("part_of = %s AND NOT ended", run)

    def wholes(self, owner: OwnerName) -> Sequence[Kept]:
        self._lock(owner)
        return self._where("owner = %s AND part_of IS NULL AND NOT ended", owner)

    def keep(self, kept: Kept) -> None:
        run = kept.run
        self._lock(kept.owner)
        self._connection.execute(
            f"INSERT INTO runs ({_READ}) VALUES (%s, %s, %s, %s, %s, %s, %s, %s)"  # noqa: S608 - fixed
            " ON CONFLICT (id) DO UPDATE SET integrity = excluded.integrity,"
            " confidentiality = excluded.confidentiality, ended = excluded.ended,"
            " version = excluded.version, roamed = excluded.roamed",
            (
                run.id,
                kept.owner,
                run.part_of,
                *_levels(run.label),
                kept.ended,
                run.version,
                run.roamed,
            ),
        )
        with self._connection.cursor() as cursor:
            cursor.executemany(
                f"INSERT INTO run_sources (run, {_SOURCE})"  # noqa: S608 - fixed text
                " VALUES (%s, %s, %s, %s, %s, %s) ON CONFLICT (run, server, tool) DO UPDATE SET"
                " record = excluded.record, integrity = excluded.integrity,"
                " confidentiality = excluded.confidentiality",
                [
                    (run.id, one.server, one.tool, one.record, *_levels(one.label))
                    for one in run.sources
                ],
            )

    def look_at(self, run: RunId, name: str) -> str:
        """Return by what a look at a run is known: `name`, unless there is one that still counts."""
        self._connection.execute(
            "INSERT INTO run_looks (run, name) VALUES (%s, %s) ON CONFLICT DO NOTHING", (run, name)
        )
        return self.look(run) or name

    def look(self, run: RunId) -> str | None:
        """Return by what a look at a run is known that nothing has come into since."""
        row = self._connection.execute(
            "SELECT name FROM run_looks WHERE run = %s", (run,)
        ).fetchone()
        return None if row is None else str(row[0])

    def note_read(self, runs: Sequence[RunId]) -> Collection[RunId]:
        """Note that something has come into each of `runs`, which whoever looked before has not seen.

        One of which nothing was remembered anywhere is at home here from now on.
        """
        rows = self._connection.execute(
            "WITH seen AS (DELETE FROM run_looks WHERE run = ANY (%(runs)s))"
            " UPDATE runs SET home = coalesce(home, %(here)s)"
            " WHERE id = ANY (%(runs)s) AND home IS DISTINCT FROM %(here)s RETURNING id, home",
            {"runs": list(runs), "here": self._replica},
        )
        return {RunId(run) for run, home in rows.fetchall() if home != self._replica}

    def note_seen(self, program: ScriptId, run: RunId, label: Label) -> None:
        """Note what a program reads in `run`, as long as the program is kept."""
        self._connection.execute(
            "UPDATE scripts SET seen_in = CASE WHEN coalesce(seen_in, %(run)s) = %(run)s THEN %(run)s ELSE '' END,"
            " seen_integrity = least(seen_integrity, %(integrity)s),"
            " seen_confidentiality = greatest(seen_confidentiality, %(confidentiality)s)"
            " WHERE id = %(program)s AND (seen_in IS NULL OR seen_in NOT IN (%(run)s, '')"
            " OR seen_integrity > %(integrity)s OR seen_confidentiality < %(confidentiality)s)",
            {
                "program": program,
                "run": run,
                "integrity": int(label.integrity),
                "confidentiality": int(label.confidentiality),
            },
        )

    def seen_by(self, program: ScriptId) -> Run | None:
        """Return what a program has read as if it were one run: that where it was, if it was in one."""
        row = self._connection.execute(
            "SELECT seen_in, seen_integrity, seen_confidentiality FROM scripts"
            " WHERE id = %s AND seen_in IS NOT NULL",
            (program,),
        ).fetchone()
        return None if row is None else Run(id=RunId(row[0]), label=label_of(*row[1:]))

    def belong(self, belonging: Belonging) -> None:
        self._connection.execute(
            "INSERT INTO run_owners (owner, generation, person) VALUES (%s, 0, %s)"
            " ON CONFLICT (owner) DO UPDATE SET person = excluded.person, used_at = clock_timestamp()",
            (belonging.owner, belonging.person),
        )

    def is_idle(self, owner: OwnerName, idle_s: float) -> bool:
        """Whether no call of the owner's was put for so long, at whichever gateway."""
        self._lock(owner)
        row = self._connection.execute(
            "SELECT used_at <= clock_timestamp() - make_interval(secs => %s)"
            " FROM run_owners WHERE owner = %s",
            (idle_s + _NOTED_S, owner),
        ).fetchone()
        return row is None or bool(row[0])

    def forget(self) -> None:
        gone = [self._connection.execute(one).rowcount for one in forgetting()]
        if is_time_to_sweep(sum(gone)):
            self._sweep()

    def may_have_forgotten(self) -> bool:
        return self._connection.execute(of_many_parts()).fetchone() is not None

    def next_generation(self, owner: OwnerName) -> int:
        (row,) = self._connection.execute(
            "INSERT INTO run_owners (owner, generation)"
            " SELECT %s, 1 + coalesce(max(generation), 0) FROM run_owners WHERE owner = ''"
            " ON CONFLICT (owner) DO UPDATE SET generation = run_owners.generation + 1 RETURNING generation",
            (owner,),
        ).fetchall()
        return int(row[0])

    def _sweep(self) -> None:
        """Forget owners of whom no run is kept: those whose lock nobody has, who might begin one."""
        alone = self._connection.execute(
            "WITH without AS MATERIALIZED (SELECT owner FROM run_owners"
            " WHERE owner <> '' AND NOT EXISTS (SELECT FROM runs WHERE runs.owner = run_owners.owner) LIMIT 512)"
            " SELECT owner FROM without WHERE pg_try_advisory_xact_lock(%s, hashtext(owner))",
            (Lock.OWNER,),
        ).fetchall()
        # A statement of its own, as in `_lock`.
        gone = self._connection.execute(
            "DELETE FROM run_owners WHERE owner = ANY (%s)"
            " AND NOT EXISTS (SELECT FROM runs WHERE runs.owner = run_owners.owner)"
            " RETURNING generation",
            ([owner for (owner,) in alone],),
        ).fetchall()
        self._connection.execute(
            "INSERT INTO run_owners (owner, generation) VALUES ('', %s) ON CONFLICT (owner)"
            " DO UPDATE SET generation = greatest(run_owners.generation, excluded.generation)",
            max(gone, default=(0,)),
        )

    def _lock(self, owner: OwnerName) -> None:
        # A statement of its own: the next one looks at what is committed once the lock is had.
        self._connection.execute(
            "SELECT pg_advisory_xact_lock(%s, hashtext(%s))", (Lock.OWNER, owner)
        )

    def _where(self, condition: str, wanted: str) -> Sequence[Kept]:
        return self._kept(
            f"SELECT {_READ} FROM runs WHERE {condition} ORDER BY began",  # noqa: S608 - fixed text
            wanted,
        )

    def _kept(self, statement: str, *wanted: str) -> Sequence[Kept]:
        rows = self._connection.execute(statement.encode(), wanted).fetchall()
        return [kept_of(row, self._sources(row[0])) for row in rows]

    def _sources(self, run: str) -> Iterable[Source]:
        rows = self._connection.execute(
            f"SELECT {_SOURCE} FROM run_sources WHERE run = %s ORDER BY listed",  # noqa: S608 - fixed
            (run,),
        )
        return [source_of(*row) for row in rows.fetchall()]


def _levels(label: Label) -> tuple[int, int]:
    return int(label.integrity), int(label.confidentiality)
