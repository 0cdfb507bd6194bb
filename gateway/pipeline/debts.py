"""Calls that planes were allowed, until their results are known.

An allowed call is a debt: whatever it brings, its caller may have read it by the time that anybody
asks again. So its run counts as if it had read the worst that could come until the plane reports
what did, and for good if it does not.
"""

import asyncio
from collections import Counter
from collections.abc import Awaitable, Callable, Mapping
from functools import cache
from heapq import heapify, heappop, heappush
from typing import Final

from gateway.domain._value import value
from gateway.domain.audit import AuditRecord, RecordKind
from gateway.domain.bounded import Bounded
from gateway.domain.calls import Call, Permit, octets_of_call, octets_of_permit
from gateway.domain.flow import NOWHERE, Run, RunHandle, RunHint, RunId, RunState, Source, Task
from gateway.domain.identity import Absence, Principal
from gateway.domain.labels import Label
from gateway.domain.planes import Debt, Plane, Reports
from gateway.domain.scripts import ScriptId
from gateway.domain.shares import Shares
from gateway.errors import AuditUnavailable, Fault, RateLimited
from gateway.pipeline.labels import source_of
from gateway.pipeline.owing import Owing
from gateway.pipeline.trail import Trail
from gateway.ports import AuditLog, Clock, RunStore
from gateway.ports.debts import DebtStore

_OCTETS: Final = 256 * 1024**2
"""Bytes of calls without a result at one time: each is kept whole until it has one."""
_SHARE: Final = _OCTETS // 2
"""Of one plane. Some of the largest calls fit, and thousands of those that there are."""
_OF_EACH: Final = _SHARE // 2
"""Of one principal of a plane: whoever sees to it that their calls have no result stops nobody else's."""
_OVER: Final = 20_000
_OVER_OCTETS: Final = 8 * 1024**2
_PAID: Final = 1_000
"""Among those that are kept by when they are due, beside as many as are open."""
_FORMER: Final = ""
"""Of whichever plane: a former process knew."""

Record = Callable[[AuditRecord], Awaitable[None]]
"""Has an intent durable on return, if what it was decided on still holds."""


@value
class Owed:
    """A debt, with what its report is judged by."""

    debt: Debt
    plane: str
    permit: Permit
    trail: Trail
    octets: int
    """What it takes to keep it."""
    at: float
    """When it was allowed."""


class Debts:
    """What is owed, in memory as in its store. It outlives a reload, and ends with the process."""

    def __init__(
        self,
        store: DebtStore,
        *,
        runs: RunStore,
        audit: AuditLog,
        clock: Clock,
        room: Shares | None = None,
        of_each: int = _OF_EACH,
    ) -> None:
        """Keep as much as there is `room` for, and so many bytes `of_each` principal of a plane."""
        self._store = store
        self._runs = runs
        self._audit = audit
        self._clock = clock
        self._room = room or Shares(octets=_OCTETS, share=_SHARE)
        self._of_each = Shares(octets=_OCTETS, share=of_each)
        self._open: dict[str, Owed] = {}
        self._due: list[tuple[float, str]] = []
        """When each of them is, in a heap; beside some that are open no more."""
        self._some = asyncio.Event()
        self._owing = Owing(runs.whose)
        self._claimed: set[str] = set()
        self._over: Bounded[tuple[str, str], bool] = Bounded(most=_OVER, octets=_OVER_OCTETS)
        self._left = {debt.decision: debt for debt in store.left()}
        for debt in self._left.values():
            self._owing.add(debt)
            self._over.put((_FORMER, debt.decision), True)
        self._possible = False

    def are_possible(self, *, asked: bool) -> bool:
        """Whether anything is or can be owed where planes ask by a configuration, or have by one before.

        Those go on asking while it is built, and what they had asked by then is still under way.
        """
        self._possible = self._possible or asked
        return self._possible or self.are_open

    @property
    def are_open(self) -> bool:
        """Whether anything is owed, by whatever planes there were."""
        return bool(self._owing)

    async def until_open(self) -> None:
        """Return once anything is owed."""
        while not self.are_open:
            self._some.clear()
            await self._some.wait()

    def counted(self, run: Run) -> Run:
        """Return `run` as one that has read the worst of what is owed in it."""
        return self._owing.counted(run)

    @property
    def held(self) -> Mapping[str, tuple[int, int]]:
        """How many calls of each plane have no result yet, and how many bytes they take."""
        calls = Counter(owed.plane for owed in list(self._open.values()))
        return {plane: (calls[plane], octets) for plane, octets in self._room.held.items()}

    def require_room(self, plane: Plane, call: Call) -> None:
        """Return if `call` can be owed by `plane` beside what is.

        Raises:
            RateLimited: Too much of its calls, or of all planes', has no result yet.

        """
        if plane.reports is Reports.RESULTS:
            self._require(fits=self._room.fits(plane.name, octets_of_call(call)))

    async def owe(
        self, plane: Plane, permit: Permit, trail: Trail, worst: Label, record: Record
    ) -> None:
        """Put the permitted call's intent on record, by which its run owes what it may bring.

        `permit` is one that waits: it outlives the configuration that would look at it.
        It is durable on return: `record` has it recorded, or says what stands against the call still. Of
        a plane that reports nothing it is in the run's label at once, for good.

        Raises:
            RateLimited: There is no room to keep it; nothing is on record.
            AuditUnavailable: It is not durable, or not known to be.
            GatewayError: As `record` says; nothing is owed.

        """
        now = self._clock()
        due = now + plane.report_within_s
        intent = trail.intent(owes=(worst, due))
        source = source_of(permit, worst, intent.id)
        debt = Debt(decision=permit.decision.id, run=permit.run.id, source=source, due=due)
        octets = octets_of_permit(permit)
        owed = Owed(debt=debt, plane=plane.name, permit=permit, trail=trail, octets=octets, at=now)
        if plane.reports is Reports.NONE:
            await record(intent)
            trail.sent = True
            await self._never_reported(owed, "the plane does not report what came of it")
            return
        self._take(owed)
        self._owing.add(debt)
        self._some.set()
        try:
            await record(intent)
        except BaseException:
            self._forget(debt)
            self._leave(owed)
            raise
        # From here on the plane may have been told, whatever becomes of the answer.
        trail.sent = True
        self._open[debt.decision] = owed
        heappush(self._due, (due, debt.decision))

    def claim(self, plane: Plane, decision: str) -> Owed | None:
        """Return what `plane` owes for `decision`, for its one report; it counts until `pay`.

        `None`: it owes nothing for that.
        """
        owed = self._open.get(decision)
        if owed is None or owed.plane != plane.name or decision in self._claimed:
            return None
        if owed.debt.due <= self._clock():
            return None
        self._claimed.add(decision)
        return owed

    def is_over(self, plane: Plane, decision: str) -> bool:
        """Whether `plane` was allowed this once, and it is too late, or too often, to report it."""
        owed = self._open.get(decision)
        if owed is not None:
            return owed.plane == plane.name
        return any((name, decision) in self._over for name in (plane.name, _FORMER))

    def unclaim(self, owed: Owed) -> None:
        """Let `owed` be reported once more: what was said of it could not be judged."""
        self._claimed.discard(owed.debt.decision)

    def pay(self, owed: Owed) -> None:
        """Forget what was owed: what has come instead is in its run's label, and its outcome on record."""
        if owed.debt.decision in self._open:
            self._leave(owed)
        self._forget(owed.debt)
        self._over.put((owed.plane, owed.debt.decision), True)

    async def settle(self) -> None:
        """Raise for good whatever nobody reported in time, with what a former process left."""
        for debt in list(self._left.values()):
            await self._raise(debt)
            await self._store.settle(debt.decision)
            self._forget(debt)
        now, late = self._clock(), list[tuple[float, str]]()
        while self._due and self._due[0][0] <= now:
            late.append(heappop(self._due))
        try:
            for _, decision in late:
                if (owed := self._open.get(decision)) is not None:
                    await self._given_up(owed, "the plane did not report what came of it")
        finally:
            for one in late:
                if one[1] in self._open:  # it is being reported, or that could not be recorded
                    heappush(self._due, one)

    async def end_without(self, absence: Callable[[str, Principal], Absence]) -> None:
        """Raise for good what is owed where somebody was not there since it was, as `absence` says.

        Raises:
            AuditUnavailable: It is not durable; what is left is owed still.

        """
        absence = cache(absence)
        # By which value it is before that: many calls are of one, and to compare them all takes long.
        looked: dict[tuple[str, int], Absence] = {}
        for owed in [*self._open.values()]:
            of = owed.plane, id(owed.permit.principal)
            if of not in looked:
                looked[of] = absence(owed.plane, owed.permit.principal)
            if who := looked[of].since(owed.at):
                await self._given_up(owed, f"{who} before anything was reported")

    async def _given_up(self, owed: Owed, why: str) -> None:
        """Raise `owed` for good, unless it has ended by now or is being reported."""
        decision = owed.debt.decision
        if decision not in self._open or decision in self._claimed:
            return
        self._claimed.add(owed.debt.decision)  # it is too late for a report from here on
        try:
            await self._never_reported(owed, why)
        except BaseException:
            self.unclaim(owed)
            raise
        self.pay(owed)

    async def _never_reported(self, owed: Owed, why: str) -> None:
        run = await self._raise(owed.debt)
        if run is not None:
            owed.trail.label(run.label)
        owed.trail.unknown("unreported", why)
        await self._audit.append(owed.trail.outcome(RecordKind.OUTCOME))

    async def _raise(self, debt: Debt) -> Run | None:
        try:
            label, source = debt.source.label, debt.source
            return await self._runs.raise_label(debt.run, label, source, heard=NOWHERE)
        except AuditUnavailable:
            raise
        except Fault:
            return None  # such a run is not kept any more, and nobody is in it

    @staticmethod
    def _require(*, fits: bool) -> None:
        if not fits:
            raise RateLimited("too many calls of this plane have no result yet; report some first")

    def _take(self, owed: Owed) -> None:
        """Have `owed` take its room, of its plane's and of its principal's, or none.

        Raises:
            RateLimited: There is not as much.

        """
        self._require(fits=self._room.take(owed.plane, owed.octets))
        if not self._of_each.take(_whose(owed), owed.octets):
            self._room.leave(owed.plane, owed.octets)
            raise RateLimited("too many of your calls have no result yet; wait for some first")

    def _leave(self, owed: Owed) -> None:
        self._of_each.leave(_whose(owed), owed.octets)
        self._room.leave(owed.plane, owed.octets)

    def _forget(self, debt: Debt) -> None:
        self._left.pop(debt.decision, None)
        self._open.pop(debt.decision, None)
        self._claimed.discard(debt.decision)
        self._owing.drop(debt)
        if len(self._due) > 2 * len(self._open) + _PAID:
            self._due = [(owed.debt.due, decision) for decision, owed in self._open.items()]
            heapify(self._due)


def _whose(owed: Owed) -> str:
    return f"{owed.plane}|{owed.permit.principal.person}"


class Indebted:
    """A `RunStore` whose runs have read the worst of what planes owe in them."""

    def __init__(self, runs: RunStore, debts: Debts) -> None:
        self._runs = runs
        self._debts = debts

    async def of(self, principal: Principal, hint: RunHint) -> Run:
        """Return the run of a call, as strict as what is owed in it; see `RunStore`."""
        return self._debts.counted(await self._runs.of(principal, hint))

    async def begin(
        self, principal: Principal, task: Task | None, handle: RunHandle | None = None
    ) -> tuple[RunHandle, Run]:
        """Begin a run; see `RunStore`."""
        return await self._runs.begin(principal, task, handle)

    def live(self, principal: Principal) -> frozenset[RunId]:
        return self._runs.live(principal)

    def whose(self, run: RunId) -> str:
        return self._runs.whose(run)

    async def end(self, run: RunId) -> Run | None:
        """End a run; see `RunStore`. What is owed in it counts in whatever comes in its place."""
        return await self._runs.end(run)

    def find(self, run: RunId) -> RunState | None:
        return self._runs.find(run)

    async def raise_label(
        self,
        run: RunId,
        label: Label,
        source: Source | None,
        program: ScriptId | None = None,
        *,
        heard: Run | None = None,
    ) -> Run:
        """Raise a run; see `RunStore`."""
        return await self._runs.raise_label(run, label, source, program, heard=heard)
