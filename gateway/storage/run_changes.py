"""What becomes of runs, as changes to a table of them; every store makes the same ones.

A principal's runs are filed under one name, its owner. One whole run of an owner is live at a time,
and every grant's calls are in it: a client asks for grants by itself, so none of them is a beginning.
The next whole run begins when that one has ended.
"""

from collections.abc import Callable, Collection, Iterable, Sequence
from dataclasses import replace
from functools import reduce
from typing import Protocol

from gateway.domain._value import value
from gateway.domain.flow import Run, RunId, Source
from gateway.domain.labels import BOTTOM, Label
from gateway.domain.scripts import ScriptId
from gateway.errors import Fault

MOST_SOURCES = 64
"""How many sources a run lists, beside those that raise it: what it has read is known by them."""

MOST_OF_NEW_SERVERS = 64
"""How many it lists beyond them, each of a server of which it lists nothing yet: whose data a run
has seen is asked of the log later, and the calls of one server are not to hide another."""

OwnerName = str
"""A keyed name of a principal: it tells nothing about whose it is."""
PersonName = str
"""A keyed name of whoever an owner's calls are made for."""
NameOf = Callable[[OwnerName, int], RunId]
"""Names an owner's whole run of that generation."""


@value
class Kept:
    """A run as it is kept."""

    run: Run
    owner: OwnerName
    ended: bool = False


@value
class Belonging:
    """For whom the calls of an owner are made: known once it has called, and never another."""

    owner: OwnerName
    person: PersonName


@value
class Change:
    """What was written, and the run that was asked for."""

    kept: tuple[Kept, ...] = ()
    belonging: tuple[Belonging, ...] = ()
    result: Run | None = None
    look: str = ""
    """By what a look at it is known."""


class RunTable(Protocol):
    """Runs, within one transaction."""

    def find(self, run: RunId) -> Kept | None: ...
    def parts(self, run: RunId) -> Sequence[Kept]:
        """Return the live runs that are part of `run`."""
        ...

    def wholes(self, owner: OwnerName) -> Sequence[Kept]:
        """Return the owner's live whole runs, oldest first."""
        ...

    def keep(self, kept: Kept) -> None: ...
    def note_read(self, runs: Sequence[RunId]) -> Collection[RunId]:
        """Note that something has come into each of `runs`: whoever looked before has not seen it.

        Returns those of them that are at home at another gateway.
        """
        ...

    def note_seen(self, program: ScriptId, run: RunId, label: Label) -> None:
        """Note what a program reads in `run`, where memory is not all that knows of it."""
        ...

    def belong(self, belonging: Belonging) -> None: ...
    def forget(self) -> None:
        """Forget the oldest of the runs that have ended, where there are very many."""
        ...

    def may_have_forgotten(self) -> bool:
        """Whether there may be a run that was begun within another one, ended, and was forgotten."""
        ...

    def next_generation(self, owner: OwnerName) -> int:
        """Return a number that was not returned for this owner before."""
        ...


def raised(run: Run, label: Label, new: Iterable[Source], *, lost: bool = False) -> Run:
    """Return the run with `label` joined into its own; the same object if that changes nothing.

    A source is listed once for each tool, with the join of what that tool's results were. What is
    `lost` is not remembered in the run; of what is public and trusted there is nothing to remember.
    """
    joined = run.label.join(label)
    sources = reduce(_joined, new, run.sources)
    roamed = run.roamed or (lost and label != BOTTOM)
    if joined == run.label and sources is run.sources and roamed is run.roamed:
        return run
    return replace(run, label=joined, sources=sources, roamed=roamed, version=run.version + 1)


def hearing(kept: Kept, whole: Kept, heard: Run | None) -> tuple[Run, frozenset[RunId | None]]:
    """Return the run in which the caller of `kept` is now, and those in which what it brings is `heard`.

    `whole` is the newest live whole run of its owner.
    """
    now = (whole if kept.ended else kept).run
    known = {heard.id, heard.part_of} if heard else {now.id, now.part_of, kept.run.id}
    return now, frozenset(known)


def _joined(sources: tuple[Source, ...], new: Source) -> tuple[Source, ...]:
    for position, known in enumerate(sources):
        if known.tool == new.tool and known.server == new.server:
            label = known.label.join(new.label)
            if label == known.label:
                return sources
            latest = Source(server=new.server, tool=new.tool, record=new.record, label=label)
            return (*sources[:position], latest, *sources[position + 1 :])
    most = MOST_SOURCES
    if all(known.server != new.server for known in sources):
        most += MOST_OF_NEW_SERVERS
    listed = reduce(Label.join, (known.label for known in sources), BOTTOM)
    if len(sources) >= most and listed.join(new.label) == listed:
        return sources
    return (*sources, new)  # what raises a run is listed, however many are


def current(
    table: RunTable,
    name_of: NameOf,
    *,
    owner: OwnerName,
    person: PersonName,
    others: Sequence[OwnerName] = (),
    taken: Sequence[OwnerName] = (),
) -> Change:
    """Find the whole run that an owner's calls are in, or begin the next one.

    One that begins has seen what the live runs of `others` have, and any what those of `taken` have:
    the same calls, filed under other names until now. Those of `taken` end with that.
    """
    live = table.wholes(owner)
    kept = live[-1] if live else _next(table, name_of, owner)
    before = [one for name in taken for one in table.wholes(name)]
    begun = [] if live else [one for name in others for one in table.wholes(name)]
    kept = _having_seen(table, kept, [*begun, *before])
    ended = end(table, [one.run.id for one in before]).kept
    belonging = Belonging(owner=owner, person=person)
    table.belong(belonging)
    return Change(kept=(kept, *ended), belonging=(belonging,), result=kept.run)


def begin(
    table: RunTable, *, run: RunId, whole: RunId, owner: OwnerName, is_new: bool = True
) -> Change:
    """Begin `run`, which has seen nothing, as a part of `whole`.

    `is_new` is whether its name is: one that somebody else gave it, it may have had before.

    Raises:
        Fault: That has ended meanwhile, or `run` was begun before, or may have been.

    """
    if table.find(run) is not None:
        raise Fault("this run was begun before", detail=run)
    if not is_new and table.may_have_forgotten():
        raise Fault("this run may have been begun before: very many were", detail=run)
    of = table.find(whole)
    if of is None or of.ended:
        raise Fault("the run has ended meanwhile", detail=whole)
    kept = Kept(run=Run(id=run, label=BOTTOM, part_of=whole), owner=owner)
    table.keep(kept)
    return Change(kept=(kept,), result=kept.run)


def join(
    table: RunTable,
    name_of: NameOf,
    *,
    run: RunId,
    label: Label,
    sources: Sequence[Source],
    everywhere: bool = False,
    heard: Run | None = None,
    program: ScriptId | None = None,
) -> Change:
    """Join `label` into `run`, and into the live whole run of its owner; `everywhere`, into its parts.

    A run that has ended while a call of it was under way is no exception: what that call brings is
    read by whoever calls next. `heard`, what is returned and the `program` are as in
    `RunStore.raise_label`.

    Raises:
        Fault: There is no such run.

    """
    kept = table.find(run)
    if kept is None:
        raise Fault("there is no such run", detail=run)
    wholes = table.wholes(kept.owner) or [_next(table, name_of, kept.owner)]
    parts = [one for whole in wholes if everywhere for one in table.parts(whole.run.id)]
    now, known = hearing(kept, wholes[-1], heard)
    runs = {each.run.id: each for each in (kept, *wholes, *parts)}
    elsewhere = table.note_read(list(runs))
    if program is not None:
        table.note_seen(program, run, label)
    changed = {}
    for name, one in runs.items():
        lost = name in elsewhere or name not in known
        after = replace(one, run=raised(one.run, label, sources, lost=lost))
        if after.run is not one.run:
            table.keep(after)
        changed[name] = after
    return Change(kept=tuple(changed.values()), result=changed[now.id].run)


def look(table: RunTable, *, run: RunId) -> Change:
    """Change nothing; say how a run is by now, and the live whole runs of its owner."""
    kept = table.find(run)
    if kept is None:
        return Change()
    beside = (one for one in table.wholes(kept.owner) if one.run.id != run)
    return Change(kept=(kept, *beside), result=kept.run)


def lower(table: RunTable, *, run: RunId, seen: Label, version: int, label: Label) -> Change:
    """Give a live run `label` in place of `seen`; nothing, if that is not its label and version."""
    kept = table.find(run)
    if kept is None or kept.ended or (kept.run.label, kept.run.version) != (seen, version):
        return Change()
    after = replace(kept.run, label=label, version=version + 1, task=None)
    lowered = Kept(run=after, owner=kept.owner)
    table.keep(lowered)
    return Change(kept=(lowered,), result=after)


def end(table: RunTable, runs: Sequence[RunId]) -> Change:
    """End `runs` with all their parts; those that have ended already stay as they are."""
    changed: list[Kept] = []
    first: Run | None = None
    for name in runs:
        kept = table.find(name)
        if kept is None or kept.ended:
            continue
        first = first or kept.run
        changed += [replace(one, ended=True) for one in (kept, *table.parts(name))]
    for one in changed:
        table.keep(one)
    if changed:
        table.forget()
    return Change(kept=tuple(changed), result=first)


def _having_seen(table: RunTable, kept: Kept, others: Sequence[Kept]) -> Kept:
    run = kept.run
    for other in others:
        run = raised(run, other.run.label, other.run.sources, lost=True)
    after = replace(kept, run=run)
    if run is not kept.run:
        table.keep(after)
    return after


def _next(table: RunTable, name_of: NameOf, owner: OwnerName) -> Kept:
    run = Run(id=name_of(owner, table.next_generation(owner)), label=BOTTOM)
    kept = Kept(run=run, owner=owner)
    table.keep(kept)
    return kept
