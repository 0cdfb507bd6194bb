"""Python in Monty: an interpreter of its own that has no I/O, one jailed process for each run."""

import shutil
import sysconfig
import tempfile
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from contextlib import AsyncExitStack, asynccontextmanager
from pathlib import Path
from typing import Final, TypeAlias

from pydantic_monty import (
    AsyncFutureSnapshot,
    AsyncMonty,
    AsyncMontySession,
    AsyncSnapshot,
    ExternalModule,
    MontyComplete,
    MontyError,
)

from gateway.domain.nodes import weight
from gateway.domain.programs import Program, ProgramResult, ProgramStatus, Redact, SandboxLimits
from gateway.errors import ConfigError, RateLimited
from gateway.ports.sandbox import Broker, Confinement, ToolRefused
from gateway.sandbox import jail
from gateway.sandbox.driving import Driver
from gateway.sandbox.ending import (
    NO_APPROVAL,
    End,
    completed,
    failed,
    lost,
    out_of_time,
    result,
)
from gateway.sandbox.gate import BudgetSpent, Gate
from gateway.sandbox.interface import Interface, Interfaces
from gateway.sandbox.one_run import ENGINE, OneRun
from gateway.sandbox.parking import ParkedRun
from gateway.sandbox.screen import Console
from gateway.sandbox.workers import Workers
from gateway.turns import QUICK_NODES, finished

PROCESSES: Final = 16
"""Runs at once, of all principals."""
WARM: Final = 2
"""Processes that wait ahead of runs, beside those that run."""

_GRACE_S: Final = 1.0
"""What an interpreter gets to end a program itself before its process is ended."""
_CHECK_S: Final = 10.0
"""For checking a program's types, at most."""
_TYPING: Final = QUICK_NODES + 1
"""A few tools already take as long as much to read."""
_PARKING: Final = QUICK_NODES + 1
"""Its process is asked what it holds, and waited for: always beside the loop."""

_Begin: TypeAlias = Callable[[AsyncMontySession], Awaitable[AsyncSnapshot]]


class MontyEngine:
    """Runs Python programs. Of one event loop."""

    def __init__(
        self,
        workers: Workers,
        limits: SandboxLimits,
        confinement: Confinement,
    ) -> None:
        """Run programs in processes of `workers`."""
        self.workers = workers
        self._limits = limits
        self._confinement = confinement
        self._interfaces = Interfaces()

    @property
    def language(self) -> str:
        """`python`."""
        return "python"

    @property
    def confinement(self) -> Confinement:
        """How its processes are held."""
        return self._confinement

    @property
    def checks_types(self) -> bool:
        """Whether they are checked: by the interpreter itself, unless it is told not to."""
        return self.workers.checks

    async def run(self, program: Program, broker: Broker, *, redact: Redact) -> ProgramResult:
        """Run a program to its end, or to where only people can let it go on."""
        limits = self._limits
        size = len(program.code.encode(errors="replace"))
        if size > limits.code_bytes:
            error = f"the program has {size} bytes, of which {limits.code_bytes} are allowed"
            return ProgramResult(status=ProgramStatus.SYNTAX, sha256=program.sha256, error=error)
        interface = self._interfaces.of(program.tools)
        package = await _packaged(broker.who, interface, program.code)
        gate = Gate(broker, interface.table, limits)
        console = Console(limits.console_bytes)
        run = OneRun(program, limits, gate=gate, driver=Driver(gate, limits), console=console)

        async def begin(session: AsyncMontySession) -> AsyncSnapshot:
            return await session.feed_start(program.code, print_callback=run.printed)

        return await self._carried(run, package, begin, redact)

    async def resume(
        self,
        parked: bytes,
        program: Program,
        broker: Broker,
        *,
        refused: Mapping[int, ToolRefused],
        redact: Redact,
    ) -> ProgramResult:
        """Let a parked run go on, in whichever process; its calls and times count on."""
        kept = await finished(broker.who, weight(parked), ParkedRun.decoded, parked)
        if kept.sha256 != program.sha256:
            raise ValueError("this is another program's run")
        if kept.engine != ENGINE:
            return await lost(kept, self._limits, redact, who=broker.who)
        limits = self._limits
        interface = self._interfaces.of(program.tools)
        package = await _packaged(broker.who, interface, program.code)
        gate = Gate(broker, interface.table, limits, made=kept.calls)
        run = OneRun(
            program,
            limits,
            gate=gate,
            driver=Driver(gate, limits, interpreter_s=kept.interpreter_s),
            console=Console(limits.console_bytes, before=kept.console),
            wall_s=kept.wall_s,
        )

        async def begin(session: AsyncMontySession) -> AsyncSnapshot:
            snapshot = await session.load_snapshot(kept.snapshot, print_callback=run.printed)
            # Not before: a call that is made has an interpreter that waits for its answer.
            for number, call in kept.waiting.items():
                run.driver.again(number, call, refused.get(call.seq))
            return snapshot

        return await self._carried(run, package, begin, redact)

    async def _carried(
        self, run: OneRun, package: ExternalModule, begin: _Begin, redact: Redact
    ) -> ProgramResult:
        try:
            end = await self._driven(run, package, begin)
            if end.status is not ProgramStatus.PARKED:
                await run.gate.finish(run.left_s)
        finally:
            run.driver.stop()
            await run.gate.cut_off()
        return await result(run, end, redact)

    async def _driven(self, run: OneRun, package: ExternalModule, begin: _Begin) -> End:
        async with AsyncExitStack() as stack:
            try:
                session = await stack.enter_async_context(
                    self.workers.one(package, used_s=run.driver.interpreter_s)
                )
            except TimeoutError as error:
                raise RateLimited("too many programs run at once; try again later") from error
            timeout = run.bounded()
            try:
                async with timeout:
                    return await _to_its_end(run, await run.driver.timed(begin(session)))
            except TimeoutError:
                if not timeout.expired():
                    raise
                return out_of_time(run)
            except BudgetSpent as spent:
                return End(status=ProgramStatus.CALLS, error=str(spent))
            except MontyError as error:
                return failed(run, error)
            finally:
                run.stopped()


@asynccontextmanager
async def monty_engine(
    limits: SandboxLimits,
    folder: Path,
    *,
    processes: int = PROCESSES,
    warm: int = WARM,
    type_check: bool = True,
) -> AsyncIterator[MontyEngine]:
    """Start an engine, and end its processes afterwards. Types are checked as a help, not as a wall.

    What starts them is written into `folder`, where nobody else may write.

    Raises:
        ConfigError: The interpreter is not installed.

    """
    interpreter = _interpreter()
    jail.keep_files_to_ourselves()
    with tempfile.TemporaryDirectory(prefix="sandbox-", dir=folder) as own:
        built = await jail.build(
            Path(own),
            interpreter,
            memory_bytes=limits.memory_bytes,
            interpreter_s=limits.interpreter_s,
        )
        async with workers_of(
            limits, built.program, most=processes, ahead=warm, checks=type_check
        ) as workers:
            yield MontyEngine(workers, limits, built.confinement)


@asynccontextmanager
async def workers_of(
    limits: SandboxLimits, program: Path | None, *, most: int, ahead: int, checks: bool
) -> AsyncIterator[Workers]:
    """Hold processes ready that `program` starts, and end all of them afterwards."""
    pool = AsyncMonty(
        binary_path=program,
        min_processes=0,
        max_processes=most + ahead,
        max_checkouts_per_worker=1,
        checkout_timeout=limits.wall_s,
        request_timeout=limits.interpreter_s + _CHECK_S,
        feed_duration_limit_grace=_GRACE_S,
        turn_duration_limit_grace=_GRACE_S,
    )
    async with pool:
        workers = Workers(pool, limits, most=most, ahead=ahead, checks=checks)
        workers.fill()
        try:
            yield workers
        finally:
            await workers.aclose()


async def confinement_here(limits: SandboxLimits) -> Confinement:
    """Try how an engine's processes would be held on this machine, without starting an engine.

    Raises:
        ConfigError: The interpreter is not installed.

    """
    with tempfile.TemporaryDirectory(prefix="sandbox-") as own:
        built = await jail.build(
            Path(own),
            _interpreter(),
            memory_bytes=limits.memory_bytes,
            interpreter_s=limits.interpreter_s,
        )
    return built.confinement


def _interpreter() -> Path:
    # Beside our own Python first: that one has the version that was installed with us.
    own = Path(sysconfig.get_path("scripts"), "monty")
    found = own if own.is_file() else shutil.which("monty")
    if found is None:
        raise ConfigError("the interpreter `monty` is not installed")
    return Path(found).absolute()


async def _to_its_end(run: OneRun, snapshot: AsyncSnapshot) -> End:
    while True:
        stopped = await run.driver.go(snapshot)
        if isinstance(stopped, MontyComplete):
            return await completed(run, stopped)
        await run.gate.finish(run.left_s)
        parked = await finished(run.gate.who, _PARKING, _kept, run, stopped)
        if parked is not None:
            waiting = sorted(run.driver.waiting.values(), key=lambda call: call.seq)
            questions = dict.fromkeys(call.question for call in waiting)
            return End(status=ProgramStatus.PARKED, parked=parked, waits_for=tuple(questions))
        text = "a person must allow it, and the program holds too much to be kept until then"
        run.driver.refuse_waiting(NO_APPROVAL, text)
        snapshot = stopped


async def _packaged(who: str, interface: Interface, code: str) -> ExternalModule:
    nodes = 0 if interface.is_ready(code) else _TYPING
    return await finished(who, nodes, interface.package, code)


def _kept(run: OneRun, stopped: AsyncFutureSnapshot) -> bytes | None:
    """Return a run as it is kept; nothing if it holds too much."""
    return run.parked(stopped.dump()).encoded(run.limits.parked_bytes)
