"""How a run ended, and what its author is told of it."""

import re
from dataclasses import replace
from typing import Final

from pydantic_monty import (
    MontyComplete,
    MontyCrashedError,
    MontyError,
    MontyRuntimeError,
    MontySyntaxError,
    MontyTypingError,
)

from gateway.domain._value import value
from gateway.domain.programs import (
    CallState,
    ProgramCall,
    ProgramResult,
    ProgramStatus,
    Redact,
    SandboxLimits,
)
from gateway.sandbox.bounded import FLOOD, BoundedRun
from gateway.sandbox.one_run import OneRun
from gateway.sandbox.parking import ParkedRun
from gateway.sandbox.screen import Console, screened_value
from gateway.turns import QUICK_NODES, finished

NAME: Final = "program.py"
"""What a program's text is called in errors."""
_INPUT: Final = re.compile("<python-input-[0-9]+>")
"""What the interpreter calls it: it may have been given something before."""
NO_APPROVAL: Final = "approval_required"
_ERROR_BYTES: Final = 4096
_NEARLY: Final = 0.9
_SCREENING: Final = QUICK_NODES + 1
"""A short text too can be long to look through for what looks like a secret: always beside the loop."""


@value
class End:
    """How a run stopped, in the program's own words: nothing of it is screened yet."""

    status: ProgramStatus
    value: object = None
    error: str = ""
    parked: bytes = b""
    waits_for: tuple[str, ...] = ()


async def completed(run: OneRun, complete: MontyComplete) -> End:
    """Return the end of a run that came to its last line."""
    try:
        found = await run.gate.plain(complete.output, run.limits.value_bytes)
    except ValueError as error:
        return End(status=ProgramStatus.OUTPUT, error=f"the program's last value is {error}")
    return End(status=ProgramStatus.OK, value=found)


def out_of_time(run: BoundedRun) -> End:
    """Return the end of a run that was stopped."""
    if run.floods:
        most = FLOOD * run.limits.console_bytes
        return End(status=ProgramStatus.OUTPUT, error=f"it printed more than {most} characters")
    return End(
        status=ProgramStatus.WALL, error=f"it did not end within {run.limits.wall_s:g} seconds"
    )


def failed(run: OneRun, error: MontyError) -> End:
    """Return the end of a run that raised an exception, or whose interpreter ended it."""
    if isinstance(error, MontyTypingError | MontySyntaxError):
        text = error.display()
        typed = isinstance(error, MontyTypingError) and "error[invalid-syntax]" not in text
        return End(status=ProgramStatus.TYPES if typed else ProgramStatus.SYNTAX, error=text)
    if isinstance(error, MontyCrashedError):
        if error.timed_out:
            return End(status=ProgramStatus.INTERPRETER, error=used_up(run.limits))
        return End(status=ProgramStatus.CRASHED, error="the interpreter ended unexpectedly")
    if not isinstance(error, MontyRuntimeError):
        return End(status=ProgramStatus.ERROR, error=str(error))
    inner = error.exception()
    # A program can raise the same itself; what it cannot do is use up the time unseen.
    timed_out = isinstance(inner, TimeoutError)
    if timed_out and run.driver.interpreter_s >= _NEARLY * run.limits.interpreter_s:
        return End(status=ProgramStatus.INTERPRETER, error=used_up(run.limits))
    status = ProgramStatus.MEMORY if isinstance(inner, MemoryError) else ProgramStatus.ERROR
    return End(status=status, error=_INPUT.sub(NAME, error.display()))


def used_up(limits: SandboxLimits) -> str:
    """Return what is told of a program that only computed."""
    return f"it computed for longer than {limits.interpreter_s:g} seconds"


async def lost(
    kept: ParkedRun, limits: SandboxLimits, redact: Redact, *, who: str
) -> ProgramResult:
    """Return the end of a run of `who` that no interpreter here can let go on."""
    console = Console(limits.console_bytes, before=kept.console)
    shown = await finished(who, _SCREENING, console.shown, redact)
    return ProgramResult(
        status=ProgramStatus.CRASHED,
        sha256=kept.sha256,
        console=shown,
        error="the interpreter was exchanged for another version while the program waited",
        calls=tuple(map(_ended, kept.calls)),
    )


async def result(run: BoundedRun, end: End, redact: Redact) -> ProgramResult:
    """Return what the program's author may see of its end, screened in their turn."""
    return await finished(run.gate.who, _SCREENING, _screened, run, end, redact)


def _screened(run: BoundedRun, end: End, redact: Redact) -> ProgramResult:
    calls = run.gate.calls
    if end.status is not ProgramStatus.PARKED:
        calls = tuple(map(_ended, calls))
    return ProgramResult(
        status=end.status,
        sha256=run.sha256,
        value=screened_value(end.value, redact),
        console=run.console.shown(redact),
        error=_shown(end.error, redact),
        calls=calls,
        parked=end.parked,
        waits_for=end.waits_for,
    )


def _shown(error: str, redact: Redact) -> str:
    # As of a console: an exception can hold all the memory that its program had.
    shortened = Console(_ERROR_BYTES)
    shortened.write(error)
    return shortened.shown(redact)


def _ended(call: ProgramCall) -> ProgramCall:
    """Return `call` of a program that does not wait for its answer any more."""
    if call.state is CallState.WAITING:
        return replace(call, state=CallState.REFUSED, code=NO_APPROVAL)
    return call
