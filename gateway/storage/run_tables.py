"""Tables of runs: in the database, and in memory alone."""

import secrets
import sqlite3
from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from typing import Any, Final

from gateway.domain.flow import Run, RunId, Source
from gateway.domain.labels import Confidentiality, Integrity, Label
from gateway.domain.scripts import ScriptId
from gateway.storage.run_changes import Belonging, Change, Kept, OwnerName, RunTable
from gateway.storage.writer import Writer

MOST_ENDED = 10_000
"""How many runs that have ended are kept, the newest; the audit log has the story of all."""
MOST_PARTS_ENDED = 50_000
"""How many runs that hosts began are known beyond that as ones that have ended: none of them begins again."""
SWEPT_EACH: Final = 256
"""Once in about so many forgotten runs owners are swept."""
ENDED_OCTETS: Final = 16 * 1024**2
"""Bytes of memory that those take, with what they have read; in memory the oldest go beyond it."""

Job = Callable[[RunTable], Change]

_SWEEP = "DELETE FROM run_owners WHERE owner NOT IN (SELECT owner FROM runs) RETURNING generation"
_FLOOR = "INSERT INTO run_owners (owner, generation) VALUES ('', ?)"
_COLUMNS = "id, owner, part_of, integrity, confidentiality, ended, version"
_ENDED_WHOLE = "ended AND part_of IS NULL"
_ENDED_PART = "ended AND part_of IS NOT NULL"
_SOURCE = "server, tool, record, integrity, confidentiality"


class SqliteRunLedger:
    """Makes changes in the writer's transactions."""

    def __init__(self, writer: Writer) -> None:
        self._writer = writer

    async def make(self, job: Job, committed: Callable[[Change], None]) -> Change:
        """Make the change that `job` describes; it is durable on return.

        Raises:
            AuditUnavailable: It did not happen, or is not known to have, in time.

        """
        return await self._writer.run(
            lambda connection: job(SqliteRunTable(connection)), committed=committed
        )


class SqliteRunTable:
    """A `RunTable` in the database, within the transaction of a connection."""

    def __init__(self, connection: sqlite3.Connection) -> None:
        self._connection = connection

    def all(self) -> Iterator[Kept]:
        """Iterate over every run, in the order in which they began: together they may be large."""
        rows = self._connection.execute(
            f"SELECT {_COLUMNS} FROM runs ORDER BY began"  # noqa: S608 - fixed text
        )
        return (kept_of(row, self._sources(row[0])) for row in rows)

    def belonging(self) -> Sequence[Belonging]:
        """Return for whom each owner calls, where that is known."""
        rows = self._connection.execute(
            "SELECT owner, person FROM run_owners WHERE person != ''"
            " AND owner IN (SELECT owner FROM runs)"
        )
        return [Belonging(owner=owner, person=person) for owner, person in rows]

    def find(self, run: RunId) -> Kept | None:
        return next(iter(self._where("id = ?", run)), None)

    def parts(self, run: RunId) -> Sequence[Kept]:
        return self._where("part_of = ? AND NOT ended", run)

    def wholes(self, owner: OwnerName) -> Sequence[Kept]:
        return self._where("owner = ? AND part_of IS NULL AND NOT ended", owner)

    def keep(self, kept: Kept) -> None:
        run = kept.run
        self._connection.execute(
            f"INSERT INTO runs ({_COLUMNS}) VALUES (?, ?, ?, ?, ?, ?, ?)"  # noqa: S608 - fixed text
            " ON CONFLICT (id) DO UPDATE SET integrity = excluded.integrity,"
            " confidentiality = excluded.confidentiality, ended = excluded.ended,"
            " version = excluded.version",
            (
                run.id,
                kept.owner,
                run.part_of,
                int(run.label.integrity),
                int(run.label.confidentiality),
                kept.ended,
                run.version,
            ),
        )
        self._connection.executemany(
            f"INSERT INTO run_sources (run, {_SOURCE})"  # noqa: S608 - fixed text
            " VALUES (?, ?, ?, ?, ?, ?) ON CONFLICT (run, server, tool) DO UPDATE SET"
            " record = excluded.record, integrity = excluded.integrity,"
            " confidentiality = excluded.confidentiality",
            [
                (
                    run.id,
                    source.server,
                    source.tool,
                    source.record,
                    int(source.label.integrity),
                    int(source.label.confidentiality),
                )
                for source in run.sources
            ],
        )

    def note_read(self, runs: Sequence[RunId]) -> Collection[RunId]:
        """Return nothing: looks are in memory, as all that comes into a run is."""
        del runs
        return ()

    def note_seen(self, program: ScriptId, run: RunId, label: Label) -> None:
        """Do nothing: what programs have read is in memory."""

    def belong(self, belonging: Belonging) -> None:
        self._connection.execute(
            "INSERT INTO run_owners (owner, generation, person) VALUES (?, 0, ?)"
            " ON CONFLICT (owner) DO UPDATE SET person = excluded.person",
            (belonging.owner, belonging.person),
        )

    def forget(self) -> None:
        if is_time_to_sweep(sum(self._connection.execute(one).rowcount for one in forgetting())):
            gone = self._connection.execute(_SWEEP)
            self._connection.execute(_FLOOR, max(gone, default=(0,)))

    def may_have_forgotten(self) -> bool:
        return self._connection.execute(of_many_parts()).fetchone() is not None

    def next_generation(self, owner: OwnerName) -> int:
        (generation,) = self._connection.execute(
            "INSERT INTO run_owners (owner, generation)"
            " SELECT ?, 1 + coalesce(max(generation), 0) FROM run_owners WHERE owner = ''"
            " ON CONFLICT (owner) DO UPDATE SET generation = generation + 1 RETURNING generation",
            (owner,),
        ).fetchone()
        return int(generation)

    def _where(self, condition: str, wanted: str) -> Sequence[Kept]:
        rows = self._connection.execute(
            f"SELECT {_COLUMNS} FROM runs WHERE {condition} ORDER BY began",  # noqa: S608 - fixed text
            (wanted,),
        ).fetchall()
        return [kept_of(row, self._sources(row[0])) for row in rows]

    def _sources(self, run: str) -> Iterable[Source]:
        rows = self._connection.execute(
            f"SELECT {_SOURCE} FROM run_sources WHERE run = ? ORDER BY rowid",  # noqa: S608 - fixed text
            (run,),
        )
        return [source_of(*row) for row in rows]


def is_time_to_sweep(forgotten: int) -> bool:
    """Whether owners of whom no run is kept are looked for, now that so many runs were forgotten.

    All owners are gone through for that. They go, for a plane makes them at will. The row of the owner without a name keeps the highest
    generation that went with any: no run has a name that another had, which records still tell of.
    """
    return secrets.randbelow(SWEPT_EACH) < forgotten


def forgetting() -> Sequence[str]:
    """Return what forgets the oldest of very many runs that have ended, in SQL."""
    return [
        f"DELETE FROM runs WHERE {kind} AND began <="  # noqa: S608 - fixed text
        f" (SELECT began FROM runs WHERE {kind} ORDER BY began DESC LIMIT 1 OFFSET {most})"
        for kind, most in ((_ENDED_WHOLE, MOST_ENDED), (_ENDED_PART, MOST_PARTS_ENDED))
    ]


def of_many_parts() -> str:
    """Return what finds a row if parts may have been forgotten, in SQL."""
    return (
        f"SELECT 1 FROM runs WHERE {_ENDED_PART}"  # noqa: S608 - fixed text
        f" LIMIT 1 OFFSET {MOST_PARTS_ENDED - 1}"
    )


def kept_of(row: Sequence[Any], sources: Iterable[Source]) -> Kept:
    """Return a run of a row of the table, with what it has read.

    Where gateways share it, a row says last whether it has roamed.
    """
    id_, owner, part_of, integrity, confidentiality, ended, version, *roamed = row
    run = Run(
        id=RunId(id_),
        label=label_of(integrity, confidentiality),
        sources=tuple(sources),
        part_of=None if part_of is None else RunId(part_of),
        version=version,
        roamed=any(roamed),
    )
    return Kept(run=run, owner=owner, ended=bool(ended))


def source_of(server: str, tool: str, record: str, integrity: int, confidentiality: int) -> Source:
    """Return a source of a row of its table."""
    return Source(
        server=server, tool=tool, record=record, label=label_of(integrity, confidentiality)
    )


def label_of(integrity: int, confidentiality: int) -> Label:
    """Return a label of two columns."""
    return Label(integrity=Integrity(integrity), confidentiality=Confidentiality(confidentiality))
