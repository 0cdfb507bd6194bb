"""Runs that other gateways change as well."""

from collections.abc import Callable, Collection, Sequence
from dataclasses import replace
from functools import partial, reduce
from secrets import token_hex

from gateway.domain.flow import NOWHERE, Run, RunId, RunState
from gateway.domain.labels import BOTTOM, Label
from gateway.domain.scripts import ScriptId
from gateway.storage import run_changes
from gateway.storage.postgres.run_table import PostgresRunTable
from gateway.storage.postgres.terms import Raise
from gateway.storage.run_changes import Change, Kept, NameOf, OwnerName, RunTable, raised
from gateway.storage.run_tables import kept_of, source_of
from gateway.storage.runs import Runs, look_of, told_of
from gateway.storage.state import Tables

_RUNS = "SELECT id, owner, part_of, integrity, confidentiality, ended, version, roamed FROM runs"
_SOURCES = (
    "SELECT server, tool, record, integrity, confidentiality FROM run_sources"
    " WHERE run = ? ORDER BY listed"
)


class SharedRuns(Runs):
    """A `RunStore` whose memory may be behind: what rests on it is compared when it is written down."""

    kept_in: Collection[str] = ("runs",)
    knows_all = False
    """A person may have lowered a label at another gateway, which memory shows still."""

    async def look_again(self, run: RunId) -> None:
        """Have memory show a run, and the whole runs beside it, as they are by now; one that is gone has ended.

        A standby that took over may lack what memory has followed, and what was never so is no later version.
        """
        found = await self._ledger.make(partial(run_changes.look, run=run), self._replace)
        known = self._kept.get(run)
        if not found.kept and known is not None and not known.ended:
            super()._keep(replace(known, ended=True))

    async def join(self, raises: Raise) -> Run:
        """Join a label as `raise_label` does, and begin a whole run where there is none.

        Raises:
            Fault: There is no such run.

        """
        job = partial(
            run_changes.join,
            name_of=self._names.of_whole,
            run=raises.run,
            label=raises.label,
            sources=() if raises.source is None else (raises.source,),
            everywhere=raises.everywhere,
        )
        return self._found(await self._make(job))

    async def look_at(self, run: RunId) -> str:
        """Return by what this look at the run is known; see `RunKeeper`."""
        if run not in self._kept:
            return ""
        return (await self._make(partial(_looked_at, run=run, name=token_hex()))).look

    async def lower_label(self, run: RunId, seen: Label, label: Label, *, look: str) -> Run | None:
        """Give the run `label` in place of `seen`; see `RunKeeper`."""
        job = partial(_lowered, run=run, seen=seen, label=label, look=look)
        return (await self._make(job)).result

    def look(self, tables: Tables, keys: Collection[str] | None) -> Callable[[], object]:
        """Return what has memory show runs as others have made them; see `Remembering`."""
        if keys is None:
            rows = list(tables.execute(f"{_RUNS} ORDER BY began"))
        else:
            rows = [row for key in keys for row in tables.execute(f"{_RUNS} WHERE id = ?", (key,))]
        kept = [
            kept_of(row, [source_of(*one) for one in tables.execute(_SOURCES, (row[0],))])
            for row in rows
        ]
        show = self._remember if keys is not None else self._replace
        return partial(show, Change(kept=tuple(kept)))

    async def _end_of(self, owners: Sequence[OwnerName]) -> None:
        # They may be calling at another gateway: then what they have read there is not over.
        await self._make(partial(_ended, owners=owners, idle_s=self.idle_s))

    async def _having_seen(self, run: Run, program: ScriptId) -> Run:
        """Return `run`, which has seen by then whatever the program that calls in it may have read.

        What its host's whole run has seen that may be from, as long as there is one.
        """
        job = partial(_having_seen, name_of=self._names.of_whole, run=run.id, program=program)
        return self._found(await self._make(job))

    def _keep(self, kept: Kept) -> None:
        """Keep what is newer than what memory shows: two looks may come in another order."""
        known = self._kept.get(kept.run.id)
        if known is None or not _is_newer(known, kept):
            super()._keep(kept)

    def _replace(self, change: Change) -> None:
        """Show what is so by now, also where memory shows a later version: none that has ended lives again."""
        for kept in change.kept:
            known = self._kept.get(kept.run.id)
            if known is None or kept.ended or not known.ended:
                super()._keep(kept)

    def _state(self, kept: Kept, now: float) -> RunState:
        # Whether it is idle everywhere is asked when somebody calls again.
        found = super()._state(kept, now)
        return RunState(run=found.run, live=not kept.ended, idle_s=found.idle_s)


def _is_newer(known: Kept, kept: Kept) -> bool:
    return known.run.version > kept.run.version or (known.ended and not kept.ended)


def _looked_at(table: RunTable, *, run: RunId, name: str) -> Change:
    """Say how a run is by now, and by what this look at it is known."""
    kept = table.find(run)
    if kept is None or kept.ended:
        return Change()
    return Change(kept=(kept,), look=look_of(kept.run, _shared(table).look_at(run, name)))


def _lowered(table: RunTable, *, run: RunId, seen: Label, label: Label, look: str) -> Change:
    kept, name = table.find(run), _shared(table).look(run)
    if kept is None or name is None or look != look_of(kept.run, name):
        return Change()
    version = kept.run.version
    return run_changes.lower(table, run=run, seen=seen, version=version, label=label)


def _ended(table: RunTable, *, owners: Sequence[OwnerName], idle_s: float) -> Change:
    idle = [one for one in sorted(owners) if _shared(table).is_idle(one, idle_s)]
    return run_changes.end(table, [one.run.id for owner in idle for one in table.wholes(owner)])


def _having_seen(table: RunTable, *, name_of: NameOf, run: RunId, program: ScriptId) -> Change:
    kept, own = table.find(run), _shared(table).seen_by(program)
    if kept is None:
        return Change()
    seen = reduce(
        lambda seen, one: raised(seen, one.run.label, one.run.sources),
        table.wholes(kept.owner),
        Run(id=NOWHERE.id, label=BOTTOM),
    )
    heard = kept.run
    if own is not None:
        seen = raised(seen, own.label, told_of(own.label, seen.sources))
        heard = kept.run if own.id == run else NOWHERE
    if raised(kept.run, seen.label, seen.sources, lost=heard is NOWHERE) is kept.run:
        return Change(kept=(kept,), result=kept.run)
    return run_changes.join(
        table, name_of, run=run, label=seen.label, sources=seen.sources, heard=heard
    )


def _shared(table: RunTable) -> PostgresRunTable:
    if not isinstance(table, PostgresRunTable):
        raise TypeError("these runs are in PostgreSQL")
    return table
