"""Runs and their labels in SQLite, read from memory; nothing here lowers a label."""

import hmac
import sqlite3
from collections import defaultdict
from collections.abc import Sequence

from gateway.domain.flow import Run, RunId, Source
from gateway.domain.identity import Principal
from gateway.domain.labels import (
    BOTTOM,
    STRICTEST_DEFAULT,
    Confidentiality,
    Integrity,
    Label,
)
from gateway.storage.writer import Writer

MOST_SOURCES = 64
"""How many sources a run lists. Its label accounts for all, listed or not."""

_ID_CHARACTERS = 32


class RunNames:
    """Names runs so that a name tells nothing about whose it is, and cannot be made up."""

    def __init__(self, key: bytes) -> None:
        self._keyed = hmac.new(key, digestmod="sha256")

    def of_grant(self, principal: Principal) -> RunId:
        """Name the run that is everything this principal does."""
        return self._name("grant", principal.key)

    def of_session(self, principal: Principal, session: str) -> RunId:
        """Name the run of one of the principal's sessions."""
        return self._name("session", principal.key, session)

    def _name(self, *parts: str) -> RunId:
        # Lengths keep ("a", "bc") and ("ab", "c") apart.
        octets = [part.encode("utf-8", "surrogatepass") for part in ("run", *parts)]
        message = b"".join(len(part).to_bytes(8, "big") + part for part in octets)
        keyed = self._keyed.copy()
        keyed.update(message)
        return RunId("r_" + keyed.hexdigest()[:_ID_CHARACTERS])


def whole(grant: RunId) -> Run:
    """Return the run of a grant that has seen nothing yet."""
    return Run(id=grant, label=BOTTOM)


def begun(run: RunId, grant: Run) -> Run:
    """Return the run of a new session: it begins with all that its grant has seen."""
    return Run(id=run, label=grant.label, sources=grant.sources, part_of=grant.id)


def hinted(run: Run) -> Run:
    """Return `run` as a call is in it.

    A call in the run of a whole grant gave no hint that we know, so nobody knows what it has seen.
    """
    if run.part_of is not None:
        return run
    return Run(id=run.id, label=run.label.join(STRICTEST_DEFAULT), sources=run.sources)


def raised(run: Run, label: Label, source: Source | None) -> Run:
    """Return the run with `label` joined into its own; the same object if that changes nothing.

    A source is listed once for each tool, with the join of what that tool's results were.
    """
    joined = run.label.join(label)
    sources = run.sources if source is None else _joined(run.sources, source)
    if joined == run.label and sources is run.sources:
        return run
    return Run(id=run.id, label=joined, sources=sources, part_of=run.part_of)


def _joined(sources: tuple[Source, ...], new: Source) -> tuple[Source, ...]:
    for position, known in enumerate(sources):
        if known.tool == new.tool and known.server == new.server:
            label = known.label.join(new.label)
            if label == known.label:
                return sources
            latest = Source(server=new.server, tool=new.tool, record=new.record, label=label)
            return (*sources[:position], latest, *sources[position + 1 :])
    return sources if len(sources) >= MOST_SOURCES else (*sources, new)


class SqliteRunStore:
    """A `RunStore`. Memory holds what is committed; a write happens only if something changes."""

    def __init__(self, writer: Writer, connection: sqlite3.Connection, names: RunNames) -> None:
        """Load every run through `connection`, which is not needed afterwards."""
        self._writer = writer
        self._names = names
        self._runs = _all(connection)

    async def of(self, principal: Principal, session: str | None) -> Run:
        """Return the run of a session that `open` began for this principal, or of the grant."""
        if session is not None:
            run = self._runs.get(self._names.of_session(principal, session))
            if run is not None:
                return run
        grant = self._names.of_grant(principal)
        return hinted(self._runs.get(grant) or whole(grant))

    async def open(self, principal: Principal, session: str) -> Run:
        """Begin the run of a new session, durable on return; a known one keeps its label."""
        name, grant = self._names.of_session(principal, session), self._names.of_grant(principal)
        if name in self._runs:
            return self._runs[name]

        def job(connection: sqlite3.Connection) -> tuple[Run, ...]:
            run = _read(connection, name)
            if run is not None:
                return (run,)
            known = _read(connection, grant) or _write(connection, whole(grant))
            return known, _write(connection, begun(name, known))

        return (await self._writer.run(job, committed=self._remember))[-1]

    async def raise_label(self, run: RunId, label: Label, source: Source | None) -> Run:
        """Join `label` into the run's and its grant's; return the run after, as `of` would."""
        cached = self._runs.get(run)
        if cached is not None and raised(cached, label, source) is cached:
            return hinted(cached)  # what a session has seen, its grant has seen

        def job(connection: sqlite3.Connection) -> tuple[Run, ...]:
            changed = []
            name: RunId | None = run
            while name is not None:
                before = _read(connection, name)
                after = raised(before or whole(name), label, source)
                changed.append(after if after is before else _write(connection, after))
                name = after.part_of
            return tuple(changed)

        return hinted((await self._writer.run(job, committed=self._remember))[0])

    def all(self) -> Sequence[Run]:
        """Return every run, in the order in which they began."""
        return list(self._runs.values())

    def find(self, run: RunId) -> Run | None:
        return self._runs.get(run)

    def _remember(self, runs: Sequence[Run]) -> None:
        self._runs.update((run.id, run) for run in runs)


def _all(connection: sqlite3.Connection) -> dict[RunId, Run]:
    sources: dict[str, list[Source]] = defaultdict(list)
    for run, *columns in connection.execute(
        "SELECT run, server, tool, record, integrity, confidentiality FROM run_sources"
        " ORDER BY rowid"
    ):
        sources[run].append(_source(*columns))
    return {
        RunId(name): Run(
            id=RunId(name),
            label=_label(integrity, confidentiality),
            sources=tuple(sources.get(name, ())),
            part_of=part_of,
        )
        for name, integrity, confidentiality, part_of in connection.execute(
            "SELECT id, integrity, confidentiality, part_of FROM runs"
        )
    }


def _read(connection: sqlite3.Connection, run: RunId) -> Run | None:
    row = connection.execute(
        "SELECT integrity, confidentiality, part_of FROM runs WHERE id = ?", (run,)
    ).fetchone()
    if row is None:
        return None
    integrity, confidentiality, part_of = row
    sources = connection.execute(
        "SELECT server, tool, record, integrity, confidentiality FROM run_sources"
        " WHERE run = ? ORDER BY rowid",
        (run,),
    )
    return Run(
        id=run,
        label=_label(integrity, confidentiality),
        sources=tuple(_source(*columns) for columns in sources),
        part_of=part_of,
    )


def _write(connection: sqlite3.Connection, run: Run) -> Run:
    connection.execute(
        "INSERT INTO runs (id, integrity, confidentiality, part_of) VALUES (?, ?, ?, ?)"
        " ON CONFLICT (id) DO UPDATE SET integrity = excluded.integrity,"
        " confidentiality = excluded.confidentiality",
        (run.id, int(run.label.integrity), int(run.label.confidentiality), run.part_of),
    )
    connection.executemany(
        "INSERT INTO run_sources (run, server, tool, record, integrity, confidentiality)"
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
    return run


def _source(server: str, tool: str, record: int, integrity: int, confidentiality: int) -> Source:
    return Source(server=server, tool=tool, record=record, label=_label(integrity, confidentiality))


def _label(integrity: int, confidentiality: int) -> Label:
    return Label(integrity=Integrity(integrity), confidentiality=Confidentiality(confidentiality))
