"""Many gateways under load, and every fault of a plan, one after the other."""

import asyncio
import random
import shutil
import time
from collections.abc import AsyncIterator, Callable, Iterator, Sequence
from contextlib import ExitStack, asynccontextmanager, contextmanager
from dataclasses import dataclass, field, replace
from pathlib import Path

import aiohttp
from aiohttp import web

from benchmarks.replicas import faults
from benchmarks.replicas.faults import Fault, Plan
from benchmarks.replicas.history import Ended, History, Log
from benchmarks.replicas.judge import problems, unshown
from benchmarks.replicas.load import ASKED, Caller, calling
from benchmarks.replicas.members import Common, Member, common
from benchmarks.replicas.probes import Office, asking, reading, rules
from benchmarks.replicas.relay import relay
from benchmarks.replicas.server import Server, Tree, server
from tests.e2e.scripted import Raw, behaves, raw_in_a_thread

PATIENCE_S = 180.0
CALLERS_EACH = 2
"""Clients of each gateway that only call."""
_LOOKS_S = 0.05
_TRIED_S = 1.0
"""So long calls are tried at least while something has ended."""


@dataclass(frozen=True, kw_only=True)
class Recovery:
    """How long it took until calls were carried again."""

    fault: Fault
    others_s: float | None
    """At all gateways that were not hit, since the fault; `None` where all were."""
    hit_s: float
    """At those that were hit: since they were killed, or since it was over."""
    ordered_s: float | None = None
    """Where the one that orders the log was killed: until the log grew again."""


@dataclass
class Outcome:
    """What came of a plan."""

    plan: Plan
    history: History = field(default_factory=History)
    recoveries: list[Recovery] = field(default_factory=list)
    log: Log = field(default_factory=Log)
    borne: int = 0
    """How many faults were over."""
    stuck: list[str] = field(default_factory=list)
    """After what the gateways did not carry calls again."""

    @property
    def problems(self) -> list[str]:
        """Say what must not be, and what was not shown."""
        planned = {fault.ends for fault in self.plan.faults()[: self.borne]} - {""}
        shown = unshown(self.history, whats=["label", *sorted(planned)], yes=True)
        return [*self.stuck, *problems(self.history, self.log, asking=ASKED), *shown]


@contextmanager
def laid_out(folder: Path, plan: Plan) -> Iterator[tuple[Raw, Server, list[Member], Common]]:
    """Run a server to call, PostgreSQL and the gateways of a plan, which know it already."""
    shutil.rmtree(folder, ignore_errors=True)
    with ExitStack() as stack:
        raw = stack.enter_context(raw_in_a_thread())
        database = stack.enter_context(server(plan.gateways))
        shared = common(folder, raw.url, rules(closed=False))
        members = []
        for number in range(plan.gateways):
            way = stack.enter_context(relay(database.socket))
            address = database.address_by(way.port, number)
            made = Member(number, shared, address=address, relay=way, moves=plan.clocks > 0)
            stack.callback(made.close)
            made.start()
            members.append(made)
        yield raw, database, members, shared


def played(folder: Path, plan: Plan) -> Outcome:
    """Do all that `plan` says, and return what came of it."""
    with laid_out(folder, plan) as (raw, database, members, shared):
        outcome = Outcome(plan)
        raw.play(_watched(outcome.history))
        stage = _Stage(outcome, database, members, shared)
        asyncio.run(stage.play())
        outcome.log = database.log()
        for member in members:
            done = member.here.douane("audit", "verify", "--json")
            if done.returncode != 0:
                outcome.log.altered.append(f"gateway {member.number}: {done.stdout}{done.stderr}")
    return outcome


@dataclass(frozen=True, kw_only=True)
class _Hit:
    """Whom a fault has hit, when it began, and when they could go on."""

    which: Sequence[int]
    begun_s: float
    over_s: float
    ordered_s: float | None = None


class _Stage:
    def __init__(
        self, outcome: Outcome, database: Server, members: Sequence[Member], shared: Common
    ) -> None:
        self._plan, self._outcome, self._history = outcome.plan, outcome, outcome.history
        self._database = database
        self._members = members
        self._shared = shared
        self._dice = random.Random(outcome.plan.seed)

    async def play(self) -> None:
        async with aiohttp.ClientSession(connector=aiohttp.TCPConnector(limit=0)) as http:
            office = Office(self._members, self._history, self._shared.policies, self._dice)
            await office.approve()
            async with self._loaded(http, office):
                await self._all_carry(range(len(self._members)), time.monotonic())
                until_s = time.monotonic() + self._plan.most_s
                for number, fault in enumerate(self._plan.faults()):
                    if time.monotonic() > until_s:
                        break
                    try:
                        await self._bear(fault, office)
                    except Exception as error:  # noqa: BLE001 - whatever it is, it is told
                        told = f"seed {self._plan.seed}, fault {number} ({fault}): {error!r}"
                        self._outcome.stuck.append(told)
                        break
                    self._outcome.borne = number + 1

    @asynccontextmanager
    async def _loaded(self, http: aiohttp.ClientSession, office: Office) -> AsyncIterator[None]:
        gateways = len(self._members)
        pause_s = CALLERS_EACH * gateways / self._plan.calls_per_s

        async def known(name: str = "reader") -> Caller:
            caller = Caller(name, http, self._members, self._history)
            await caller.register()
            return caller

        work = [reading(known, self._history, self._dice, gateways)]
        work.append(asking(await known("asker"), office, self._history, self._dice, gateways))
        for number in range(CALLERS_EACH * gateways):
            caller = await known(f"caller{number}")
            home = number % gateways
            work.append(calling(caller, home, self._dice, gateways=gateways, pause_s=pause_s))
        tasks = [asyncio.create_task(one) for one in work]
        try:
            yield
        finally:
            ended = [task for task in tasks if task.done()]
            for task in tasks:
                task.cancel()
            await asyncio.wait(tasks)
            self._outcome.stuck += [f"a client broke: {task.exception()!r}" for task in ended]

    async def _bear(self, fault: Fault, office: Office) -> None:
        """Have something end, and the fault happen; return once every gateway carries calls again."""
        span = await office.ends(fault.ends) if fault.ends else None
        await asyncio.sleep(fault.after_s)
        hit = await self._struck(fault)
        if span is not None:
            await self._tried(span)
            await office.begins(span)
        hit_s = await self._all_carry(hit.which, hit.over_s)
        others = [n for n in range(len(self._members)) if n not in hit.which]
        others_s = await self._all_carry(others, hit.begun_s) if others else None
        if fault.ends != "stop":  # else it is the person who was waited for
            self._outcome.recoveries.append(
                Recovery(fault=fault, others_s=others_s, hit_s=hit_s, ordered_s=hit.ordered_s)
            )

    async def _tried(self, span: Ended) -> None:
        """Return once calls were tried for a while, and one of those that `span` forbids."""
        begun_s = time.monotonic()
        await asyncio.sleep(_TRIED_S)
        while not any(map(span.forbids, reversed(self._history.calls))):
            if time.monotonic() > begun_s + PATIENCE_S:
                return  # the judge says so
            await asyncio.sleep(_LOOKS_S)

    async def _struck(self, fault: Fault) -> "_Hit":
        """Have it happen, and be over."""
        every, begun_s = range(len(self._members)), time.monotonic()
        match fault.kind:
            case faults.POSTGRES:
                await asyncio.to_thread(self._database.kill)
                await asyncio.to_thread(self._database.start)
            case faults.LANE:
                await asyncio.to_thread(self._database.kill_lane, fault.at)
            case faults.HOLDER:
                return await self._one_hit(await self._holder(), fault)
            case _:
                return await self._one_hit(fault.at, fault)
        return _Hit(which=every, begun_s=begun_s, over_s=begun_s)

    async def _one_hit(self, at: int, fault: Fault) -> "_Hit":
        """Have one gateway be hit; see how long the log stands still, if it was the one that orders it."""
        led = await asyncio.to_thread(self._database.leader) == at
        before = await asyncio.to_thread(self._database.tree)
        begun_s, over = time.monotonic(), asyncio.Event()
        watching = asyncio.create_task(self._ordered(before, over)) if led else None
        try:
            if fault.is_kill:
                await asyncio.to_thread(self._members[at].kill)
                await asyncio.to_thread(self._members[at].start)
            else:
                await _disturbed(self._members[at], fault)
        finally:
            over.set()
        over_s = begun_s if fault.is_kill else time.monotonic()
        ordered_s = None if watching is None else await watching - begun_s
        return _Hit(which=[at], begun_s=begun_s, over_s=over_s, ordered_s=ordered_s)

    async def _ordered(self, before: Tree, over: asyncio.Event) -> float:
        """Return when another leader has taken records in, or the same one again once it could."""
        patience = time.monotonic() + PATIENCE_S
        while time.monotonic() < patience:
            now = await asyncio.to_thread(self._database.tree)
            if now.token > before.token and now.size > before.size:
                return time.monotonic()
            if over.is_set():
                if now.token == before.token and now.size > before.size:
                    return time.monotonic()
            elif now.size > before.size:
                before = replace(before, size=now.size)  # it goes on, for now
            await asyncio.sleep(_LOOKS_S)
        raise TimeoutError("nobody orders the log")

    async def _holder(self) -> int:
        """Return which of them orders the log, once one does."""
        patience = time.monotonic() + PATIENCE_S
        while (found := await asyncio.to_thread(self._database.leader)) is None:
            if time.monotonic() > patience:
                raise TimeoutError("nobody orders the log")
            await asyncio.sleep(_LOOKS_S)
        return found

    async def _all_carry(self, which: Sequence[int], since_s: float) -> float:
        """Return how long after `since_s` all of these had carried a call that began later."""
        patience = time.monotonic() + PATIENCE_S
        while True:
            carried = [self._history.carried(at, since_s) for at in which]
            ends_s = [at_s for at_s in carried if at_s is not None]
            if len(ends_s) == len(carried):
                return max(ends_s) - since_s
            if time.monotonic() > patience:
                raise TimeoutError(f"no call is carried at some of {list(which)}")
            await asyncio.sleep(_LOOKS_S)


async def _disturbed(member: Member, fault: Fault) -> None:
    begin, end = _ways(member, fault)
    begin()
    try:
        await asyncio.sleep(fault.lasts_s)
    finally:
        end()


def _ways(member: Member, fault: Fault) -> tuple[Callable[[], None], Callable[[], None]]:
    relay, clock = member.relay, member.clock
    if fault.kind == faults.STOPPED:
        return member.stop, member.go_on
    if fault.kind == faults.CLOCK and clock is not None:
        return lambda: clock.set(fault.jump_s), lambda: clock.set(0.0)
    if relay is None:
        raise ValueError(f"{fault.kind} cannot befall gateway {member.number}")
    return (relay.cut if fault.kind == faults.CUT else relay.silence), relay.mend


def _watched(history: History) -> Callable[[web.Request], "asyncio.Future[web.StreamResponse]"]:
    async def watched(request: web.Request) -> web.StreamResponse:
        if request.method == "POST" and b'"tools/call"' in await request.read():
            trace = request.headers.get("traceparent", "").split("-")
            history.sent.setdefault(trace[1] if len(trace) > 1 else "", []).append(time.monotonic())
        return await behaves(request)

    return watched  # type: ignore[return-value]
