"""Runs and their labels, read from memory; what changes is durable first."""

import asyncio
import base64
import hmac
import os
from collections import Counter, OrderedDict, deque
from collections.abc import Callable, Collection, Iterable, MutableMapping, Sequence
from dataclasses import replace
from functools import partial, reduce
from secrets import token_hex
from typing import Any, Final, Protocol, TypeVar

from gateway.domain._value import value
from gateway.domain.bounded import Bounded, ByIdentity, octets_of
from gateway.domain.flow import NOWHERE, Run, RunHandle, RunHint, RunId, RunState, Source, Task
from gateway.domain.identity import Actor, Principal
from gateway.domain.labels import BOTTOM, STRICTEST_DEFAULT, Label
from gateway.domain.scripts import ScriptId
from gateway.domain.tools import OWN
from gateway.errors import Fault, RateLimited
from gateway.ports import Clock
from gateway.storage import run_changes
from gateway.storage.callers import Begun, Callers
from gateway.storage.run_changes import (
    Belonging,
    Change,
    Kept,
    OwnerName,
    PersonName,
    hearing,
    raised,
)
from gateway.storage.run_tables import ENDED_OCTETS, MOST_ENDED, Job

Live = TypeVar("Live", bound=MutableMapping[RunId, Any])

HANDLE_OCTETS = 16

_ID_CHARACTERS = 32

_MOST_PROGRAMS: Final = 20_000
_PROGRAM_OCTETS: Final = 8 * 1024**2
"""Of how private what they read is; and as many of where it is from, which is forgotten sooner."""
EARLIER: Final = "a program's earlier calls"
"""What a source is called of which only the label is known any more."""
_MOST_OWNERS: Final = 20_000
_OWNER_OCTETS: Final = 16 * 1024**2
_RUN_OCTETS: Final = 1024
_SOURCE_OCTETS: Final = 256
"""Of one, beside its name."""


@value
class RunLimits:
    """Whose calls are one run, and when runs end by themselves."""

    idle_s: float = 8 * 3600.0
    """Seconds without a call of its principal's."""
    most: int = 100
    """Live runs that a principal began for tasks; one more ends the one that was idle longest."""
    by_person: bool = False
    """Whether what one client of a person reads counts for their other clients as well."""


class RunNames:
    """Names runs so that a name tells nothing about whose it is, and cannot be made up."""

    def __init__(self, key: bytes, *, by_person: bool = False) -> None:
        """`by_person`: whether all clients of a person are one owner, or each is one."""
        self._keyed = hmac.new(key, digestmod="sha256")
        self.by_person = by_person

    def of_owner(self, actor: Actor) -> OwnerName:
        """Name what all runs of this actor are filed under."""
        return self.of_all(actor) if self.by_person else self.of_client(actor)

    def of_all(self, actor: Actor) -> OwnerName:
        """Name whoever `actor` acts for, with whatever client."""
        return self._name("all", actor.issuer, actor.subject)

    def of_client(self, actor: Actor) -> OwnerName:
        """Name a client that acts for somebody.

        Clients of one person that registered themselves under one name are one: data goes from one
        endpoint to another within a host. That a stranger may take the name only joins more.
        """
        if actor.program:
            return self._name("named", actor.issuer, actor.subject, actor.program)
        return self._name("owner", f"{actor.issuer}|{actor.subject}|{actor.client_id}")

    def of_person(self, issuer_and_subject: str) -> PersonName:
        """Name somebody, given as `ISSUER|SUBJECT`."""
        return self._name("person", issuer_and_subject)

    def of_whole(self, owner: OwnerName, generation: int) -> RunId:
        """Name the owner's whole run of that generation."""
        return RunId("r_" + self._name("whole", owner, str(generation)))

    def of_handle(self, actor: Actor, handle: str) -> RunId:
        """Name the run that `actor` began and was given `handle` for: no other client may use it."""
        return RunId("r_" + self._name("handle", self.of_client(actor), handle))

    def _name(self, *parts: str) -> str:
        # Lengths keep ("a", "bc") and ("ab", "c") apart.
        octets = [part.encode("utf-8", "surrogatepass") for part in ("run", *parts)]
        message = b"".join(len(part).to_bytes(8, "big") + part for part in octets)
        keyed = self._keyed.copy()
        keyed.update(message)
        return keyed.hexdigest()[:_ID_CHARACTERS]


class RunLedger(Protocol):
    """Where changes are made."""

    async def make(self, job: Job, committed: Callable[[Change], None]) -> Change:
        """Make the change that `job` describes, atomically; it is durable on return.

        `committed` is called with it in the order of the changes, also if nobody waits any more.
        """
        ...


class Runs:
    """A `RunStore`. Memory holds what is committed; a write happens only if something changes.

    When a run was last used, and the task of one, are in memory alone: idle time counts from the
    start of the process at the earliest, and after it no run has a task.
    """

    knows_all: bool = True
    """Whether nobody else changes runs: what memory shows is how they are."""

    def __init__(
        self,
        ledger: RunLedger,
        names: RunNames,
        *,
        limits: RunLimits,
        elapsed: Clock,
        random: Callable[[int], bytes] = os.urandom,
        kept: Iterable[Kept] = (),
        belonging: Iterable[Belonging] = (),
    ) -> None:
        """Begin with what is kept; `elapsed` is a clock that nobody can set (seconds)."""
        self._ledger = ledger
        self._names = names
        self._limits = limits
        self._elapsed = elapsed
        self._random = random
        self._since = elapsed()
        self._kept: dict[RunId, Kept] = {}
        self._wholes: dict[OwnerName, dict[RunId, None]] = {}
        self._parts: dict[OwnerName, OrderedDict[RunId, float]] = {}
        """The live runs that an owner began, by their last use, oldest first."""
        self._kept_of: Counter[OwnerName] = Counter()
        """How many runs of an owner memory shows: of whoever has none, nothing is kept."""
        self._callers = Callers()
        self._begun_by = Begun()
        self._owners: ByIdentity[OwnerName] = ByIdentity(most=_MOST_OWNERS, octets=_OWNER_OCTETS)
        self._persons: dict[OwnerName, PersonName] = {}
        self._tasks: dict[RunId, Task] = {}
        self._seen: Bounded[ScriptId, Label] = Bounded(most=_MOST_PROGRAMS, octets=_PROGRAM_OCTETS)
        """What the programs that hosts have tokens for have read, in whichever run."""
        self._seen_of: Bounded[ScriptId, Run] = Bounded(most=_MOST_PROGRAMS, octets=_PROGRAM_OCTETS)
        """Where that is from, as if each were one run of its own: to forget it takes no label away."""
        self._looks: dict[RunId, str] = {}
        """By what a look at a run is known, until something comes into it."""
        self._lowering: set[object] = set()
        """Labels that are being lowered, as far as anybody can tell."""
        self._unsettled: set[object] = set()
        """Those of them that failed, and may come about all the same until a later change has."""
        self._ended: deque[RunId] = deque()
        self._ended_octets = 0
        self._remember(Change(belonging=tuple(belonging)))
        for one in kept:
            self._keep(one)
        for one in self._kept.values():
            if not one.ended:
                self._callers.note(one.owner, self._since)
        self._apart = self._kept_apart()

    def _owner(self, principal: Principal) -> OwnerName:
        owner = self._owners.get(principal)
        if owner is None:
            owner = self._names.of_owner(principal.actor)
            self._owners.put(owner, principal, octets=octets_of(principal))
        return owner

    async def of(self, principal: Principal, hint: RunHint) -> Run:
        """Return the run that a call of the principal's belongs to; see `RunStore`."""
        owner, now, handle = self._owner(principal), self._elapsed(), hint.handle
        await self._end_idle(principal, owner, now)
        begun = None if handle is None else await self._begun(principal, owner, handle, now)
        run = begun or await self._whole(principal, owner)
        if principal.script is not None:
            run = await self._having_seen(run, principal.script)
        if handle is None or begun is not None:
            return run
        return replace(run, label=run.label.join(STRICTEST_DEFAULT), unnamed=True)

    async def begin(
        self, principal: Principal, task: Task | None, handle: RunHandle | None = None
    ) -> tuple[RunHandle, Run]:
        """Begin a run of its own for `task`; see `RunStore`."""
        owner, now = self._owner(principal), self._elapsed()
        await self._end_idle(principal, owner, now)
        whole = await self._whole(principal, owner)
        is_new = handle is None
        if handle is None:
            octets = self._random(HANDLE_OCTETS)
            handle = RunHandle(base64.urlsafe_b64encode(octets).decode().rstrip("="))
        run = self._names.of_handle(principal.actor, handle)
        parts = self._parts.get(owner, ())
        over = list(parts)[: max(0, len(parts) + 1 - self._limits.most)]
        if over:
            await self._make(partial(run_changes.end, runs=over))
        if task is not None:
            self._tasks[run] = task
        try:
            job = partial(run_changes.begin, run=run, whole=whole.id, owner=owner, is_new=is_new)
            made = self._found(await self._make(job))
        except BaseException:
            self._tasks.pop(run, None)
            raise
        if surplus := self._begun_by.add(run, principal):
            await self._make(partial(run_changes.end, runs=surplus))
            for one in surplus:  # also one that never began, or was ended by another gateway
                self._begun_by.leave(one)
        return handle, made

    def live(self, principal: Principal) -> frozenset[RunId]:
        """Return the principal's live runs; see `RunStore`."""
        owner = self._owner(principal)
        return frozenset((*self._wholes.get(owner, ()), *self._parts.get(owner, ())))

    def whose(self, run: RunId) -> str:
        """Return what the runs of one owner are filed under; see `RunStore`."""
        kept = self._kept.get(run)
        return run if kept is None else kept.owner

    def whole(self, actor: Actor) -> Run | None:
        """Return the live run that calls of `actor` are in, if there is one; from memory."""
        live = list(self._wholes.get(self._names.of_owner(actor), ()))
        return self._kept[live[-1]].run if live else None

    def acts_for(self, run: RunId, people: Collection[str]) -> bool:
        """Whether `run` is one of calls for any of `people`, given as `ISSUER|SUBJECT`.

        True also where nobody knows whose it is: it has not called since an earlier version.
        """
        kept = self._kept.get(run)
        person = None if kept is None else self._persons.get(kept.owner)
        return person is None or person in map(self._names.of_person, people)

    async def end(self, run: RunId) -> Run | None:
        """End a run with all that was begun in it; see `RunStore`."""
        return (await self._make(partial(run_changes.end, runs=[run]))).result

    async def raise_label(
        self,
        run: RunId,
        label: Label,
        source: Source | None,
        program: ScriptId | None = None,
        *,
        heard: Run | None = None,
        more: Sequence[Source] = (),
    ) -> Run:
        """Join `label` into the run's and into its principal's whole runs; see `RunStore`."""
        sources = () if source is None else (source, *more)
        if program is not None:
            self._note_seen(program, run, label, sources)
        kept = self._kept.get(run)
        # Which of the host's runs the program is for it has not said: any of them may read of it.
        everywhere = program is not None and kept is not None and kept.run.part_of is None
        if kept is not None:
            self._note_answered(kept)
            wholes = self._wholes.get(kept.owner, {})
            parts = self._parts.get(kept.owner, ()) if everywhere else ()
            runs = {run, *wholes, *parts}
            for each in runs:
                self._looks.pop(each, None)  # nobody who looked before has seen this
            if wholes and self.knows_all and not self._lowering:
                now, known = hearing(kept, self._kept[next(reversed(wholes))], heard)
                before = [self._kept[one].run for one in runs]
                if all(raised(b, label, sources, lost=b.id not in known) is b for b in before):
                    return now
        job = partial(
            run_changes.join,
            name_of=self._names.of_whole,
            run=run,
            label=label,
            sources=sources,
            everywhere=everywhere,
            heard=heard,
            program=program,
        )
        return self._found(await self._make(job))

    def _note_seen(
        self, program: ScriptId, run: RunId, label: Label, sources: Sequence[Source]
    ) -> None:
        """Note what a program reads in `run`, as if all that it does were one run of its own."""
        known, seen = self._seen.get(program), self._seen_of.get(program)
        self._seen.put(program, label if known is None else label.join(known))
        if seen is None:
            seen = Run(id=run if known is None else NOWHERE.id, label=BOTTOM)
        elif seen.id != run:
            seen = replace(seen, id=NOWHERE.id)  # no run has heard all of it
        seen = raised(seen, label, sources)
        self._seen_of.put(program, seen, _octets(seen))

    async def look_at(self, run: RunId) -> str:
        """Return by what this look at the run is known; see `RunKeeper`."""
        kept = self._kept.get(run)
        if kept is None or kept.ended:
            return ""
        return look_of(kept.run, self._looks.setdefault(run, token_hex()))

    async def lower_label(self, run: RunId, seen: Label, label: Label, *, look: str) -> Run | None:
        """Give the run `label` in place of `seen`; see `RunKeeper`."""
        # It goes on where nobody waits for it any more: whoever reads meanwhile has to know of it.
        return await asyncio.shield(self._lowered(run, seen, label, look))

    async def _lowered(self, run: RunId, seen: Label, label: Label, look: str) -> Run | None:
        kept, name = self._kept.get(run), self._looks.get(run)
        if kept is None or name is None or look != look_of(kept.run, name):
            return None
        version = kept.run.version
        job = partial(run_changes.lower, run=run, seen=seen, version=version, label=label)
        # From the comparison to the commit whatever is read is written down behind this: memory
        # still shows the label from before. What fails may come about later, so then it stays so.
        lowering = object()
        self._lowering.add(lowering)
        try:
            change = await self._make(job)
        except BaseException:
            self._unsettled.add(lowering)
            raise
        self._lowering.discard(lowering)
        return change.result

    def all(self) -> Sequence[RunState]:
        """Return every run, in the order in which they began."""
        now = self._elapsed()
        return [self._state(kept, now) for kept in self._kept.values()]

    def find(self, run: RunId) -> RunState | None:
        kept = self._kept.get(run)
        return None if kept is None else self._state(kept, self._elapsed())

    @property
    def idle_s(self) -> float:
        """After how many seconds without a call a run ends."""
        return self._limits.idle_s

    async def _end_idle(self, principal: Principal, owner: OwnerName, now: float) -> None:
        """End all runs of a principal who has not called for long, and note that it calls now."""
        try:
            used = self._callers.call(owner, principal, now, self._since)
        except RateLimited:
            await self._end_all_idle()
            used = self._callers.call(owner, principal, now, self._since)
        if now - used >= self._limits.idle_s:
            try:
                await self._end_of([owner])
            except BaseException:
                self._callers.put_back(owner, now, used)  # they did not end
                raise

    def _note_answered(self, kept: Kept) -> None:
        """Note that a call has its answer now: nobody was idle who waited for it.

        A server could make a run end by keeping its answer back, which nobody would have read then.
        """
        now, parts = self._elapsed(), self._parts.get(kept.owner)
        self._callers.note(kept.owner, now)
        if parts is not None and kept.run.id in parts:
            self._use(parts, kept.run.id, now)

    async def _begun(
        self, principal: Principal, owner: OwnerName, handle: str, now: float
    ) -> Run | None:
        run = self._names.of_handle(principal.actor, handle)
        parts = self._parts.get(owner)
        used = None if parts is None else parts.get(run)
        if parts is None or used is None:
            return None
        # A program that a trusted host has a token for is in the run that its host puts it in.
        trusted = principal.trusted_host or principal.script is not None
        if trusted and now - used < self._limits.idle_s:
            self._use(parts, run, now)
            return self._kept[run].run
        # What its conversation sees from here on is not in it, so it must never be one again.
        await self.end(run)
        return None

    def _use(self, parts: OrderedDict[RunId, float], run: RunId, now: float) -> None:
        parts[run] = now
        parts.move_to_end(run)
        self._begun_by.use(run)

    async def _whole(self, principal: Principal, owner: OwnerName) -> Run:
        live = self._wholes.get(owner)
        known = self._persons.get(owner)
        if live and known is not None and known not in self._apart:
            return self._kept[next(reversed(live))].run
        await self._end_all_idle()
        person = known or self._names.of_person(principal.person)
        job = partial(
            run_changes.current,
            name_of=self._names.of_whole,
            owner=owner,
            person=person,
            # What its calls were filed under while the operator wanted that otherwise.
            others=() if self._names.by_person else (self._names.of_all(principal.actor),),
            taken=[one for one in self._apart.get(person, ()) if one != owner],
        )
        run = self._found(await self._make(job))
        self._apart.pop(person, None)
        return run

    def _kept_apart(self) -> dict[PersonName, list[OwnerName]]:
        """Return the owners of what is live of each person whose clients are one by now."""
        found: dict[PersonName, list[OwnerName]] = {}
        for owner, person in self._persons.items() if self._names.by_person else ():
            if self._wholes.get(owner):
                found.setdefault(person, []).append(owner)
        return found

    async def _end_all_idle(self) -> None:
        """End the runs of principals who do not come back, when somebody else's run begins."""
        idle = self._callers.take_idle(self._elapsed() - self._limits.idle_s)
        if any(self._wholes.get(owner) for owner in idle):
            await self._end_of(idle)

    async def _end_of(self, owners: Sequence[OwnerName]) -> None:
        """End the whole runs of owners who have not called for long."""
        runs = [run for owner in owners for run in self._wholes.get(owner, ())]
        await self._make(partial(run_changes.end, runs=runs))

    async def _having_seen(self, run: Run, program: ScriptId) -> Run:
        """Return `run`, which has seen by then what the program that calls in it has read anywhere."""
        label, seen = self._seen.get(program), self._seen_of.get(program)
        heard = run if seen is not None and seen.id == run.id else NOWHERE
        if label is None or raised(run, label, (), lost=heard is NOWHERE) is run:
            return run
        sources = () if seen is None else seen.sources
        first, *more = (*sources, *told_of(label, sources))
        return await self.raise_label(run.id, label, first, heard=heard, more=more)

    def _state(self, kept: Kept, now: float) -> RunState:
        used = self._callers.last(kept.owner, self._since)
        if kept.run.part_of is not None:
            parts = self._parts.get(kept.owner)
            used = self._since if parts is None else parts.get(kept.run.id, self._since)
        idle_s = max(0.0, now - used)
        live = not kept.ended and idle_s < self._limits.idle_s
        return RunState(run=kept.run, live=live, idle_s=idle_s)

    async def _make(self, job: Job) -> Change:
        before = frozenset(self._unsettled)
        change = await self._ledger.make(job, self._remember)
        if before:  # changes are made in their order: by now these have come about, or never do
            self._lowering -= before
            self._unsettled -= before
        return change

    def _remember(self, change: Change) -> None:
        for one in change.belonging:
            self._persons[one.owner] = one.person
        for kept in change.kept:
            self._keep(kept)

    def _keep(self, kept: Kept) -> None:
        run, owner = kept.run, kept.owner
        known = self._kept.get(run.id)
        self._kept_of[owner] += known is None
        if kept.ended:
            self._tasks.pop(run.id, None)
        elif run.part_of is None:
            self._wholes.setdefault(owner, {})[run.id] = None
        else:
            self._parts.setdefault(owner, OrderedDict()).setdefault(run.id, self._elapsed())
        self._kept[run.id] = kept = replace(kept, run=self._as_known(run))
        if kept.ended:
            self._end_of_one(kept, known)

    def _as_known(self, run: Run) -> Run:
        """Return `run` with its task, and with what is known of it here alone: that it has roamed."""
        known, task = self._kept.get(run.id), self._tasks.get(run.id, run.task)
        roamed = run.roamed or (known is not None and known.run.roamed)
        if task is run.task and roamed is run.roamed:
            return run
        return replace(run, task=task, roamed=roamed)

    def _found(self, change: Change) -> Run:
        if change.result is None:
            raise Fault("a run was not found")
        return self._as_known(change.result)

    def _end_of_one(self, kept: Kept, known: Kept | None) -> None:
        """Note that a run has ended, and forget the oldest of very many that have."""
        run, owner = kept.run.id, kept.owner
        self._looks.pop(run, None)
        _leave(self._wholes, owner, run)
        _leave(self._parts, owner, run)
        self._begun_by.leave(run)
        if known is None or not known.ended:
            self._ended.append(run)
        else:
            self._ended_octets -= _octets(known.run)
        self._ended_octets += _octets(kept.run)
        while len(self._ended) > MOST_ENDED or self._ended_octets > ENDED_OCTETS:
            self._forget(self._kept.pop(self._ended.popleft()))

    def _forget(self, kept: Kept) -> None:
        """Note that memory shows a run no more; its owner neither, if it was their last one."""
        self._ended_octets -= _octets(kept.run)
        self._kept_of[kept.owner] -= 1
        if not self._kept_of[kept.owner]:
            del self._kept_of[kept.owner]
            self._persons.pop(kept.owner, None)


def told_of(label: Label, sources: Sequence[Source]) -> Sequence[Source]:
    """Return where what a program has read is from besides, if `sources` do not account for all of it."""
    told = reduce(Label.join, (one.label for one in sources), BOTTOM)
    if told.join(label) == told:
        return ()
    return (Source(server=OWN, tool=EARLIER, record="", label=label),)


def look_of(run: Run, name: str) -> str:
    """Return by what a look is known: another one, too, where the run is another one by now."""
    return f"{run.version}.{name}"


def _leave(live: dict[OwnerName, Live], owner: OwnerName, run: RunId) -> None:
    """Take a run out, and its owner with their last one."""
    runs = live.get(owner)
    if runs is not None:
        runs.pop(run, None)
        if not runs:
            del live[owner]


def _octets(run: Run) -> int:
    """Return about how many bytes of memory a run takes, with what it lists, at most."""
    # Four bytes are the most that a character takes.
    return _RUN_OCTETS + sum(_SOURCE_OCTETS + 4 * len(each.tool) for each in run.sources)
