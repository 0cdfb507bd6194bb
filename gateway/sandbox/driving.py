"""Drives one session of the interpreter: each time it asks for something, it gets an answer."""

import asyncio
from collections.abc import Awaitable
from typing import Any, Final, TypeAlias, TypeVar

from pydantic_monty import (
    AsyncFunctionSnapshot,
    AsyncFutureSnapshot,
    AsyncNameLookupSnapshot,
    AsyncSnapshot,
    ExternalSettledResult,
    MontyComplete,
)

from gateway.domain.programs import SandboxLimits
from gateway.ports.sandbox import ToolRefused
from gateway.sandbox.gate import Answer, BudgetSpent, Gate, WaitingCall
from gateway.sandbox.names import PACKAGE
from gateway.sandbox.screen import one_line

TURNS: Final = 1000
"""How often a program may ask for something that is no call of a tool: a sleep, an unknown name."""

_NAME_CHARS: Final = 100
_IMPORTS: Final = frozenset({"import", "import_stubs"})

_Call: TypeAlias = asyncio.Task[Answer | WaitingCall]
_T = TypeVar("_T")


class Driver:
    """One run of a program, until it ends or waits for people only. Of one event loop."""

    def __init__(
        self,
        gate: Gate,
        limits: SandboxLimits,
        *,
        interpreter_s: float = 0.0,
    ) -> None:
        """Begin, with the time that the interpreter has used up already."""
        self._gate = gate
        self._longest_s = limits.wall_s
        self._turns = TURNS + 4 * limits.calls
        self._pending: dict[int, _Call] = {}
        self._timers: set[_Call] = set()
        self.waiting: dict[int, WaitingCall] = {}
        """What waits for a person, by the interpreter's numbers."""
        self.interpreter_s = interpreter_s
        """Time in which the interpreter worked and we waited for it."""

    async def go(self, snapshot: AsyncSnapshot) -> MontyComplete | AsyncFutureSnapshot:
        """Answer until it is complete, or where nothing but answers of people lets it go on.

        Raises:
            BudgetSpent: It called too many tools, or asks too often.
            MontyError: It raised an exception, or its interpreter ended it.

        """
        while not isinstance(snapshot, MontyComplete):
            self._turns -= 1
            if self._turns < 0:
                raise BudgetSpent(f"a program may sleep, or look for a name, {TURNS} times")
            if isinstance(snapshot, AsyncFunctionSnapshot):
                snapshot = await self._called(snapshot)
            elif isinstance(snapshot, AsyncNameLookupSnapshot):
                snapshot = await self.timed(snapshot.resume())
            else:
                results = await self._results(snapshot)
                if not results:
                    return snapshot
                snapshot = await self.timed(snapshot.resume(results))
        return snapshot

    def again(self, number: int, call: WaitingCall, refused: ToolRefused | None) -> None:
        """Make a call once more that waited, or let it fail."""
        self._pending[number] = self._gate.again(call, refused)

    def refuse_waiting(self, code: str, text: str) -> None:
        """Let every call that waits for a person fail in the program."""
        for number, call in self.waiting.items():
            self.again(number, call, ToolRefused(code, text))
        self.waiting.clear()

    def stop(self) -> None:
        """End the sleeps of the program. Its calls are its gate's."""
        for timer in self._timers:
            timer.cancel()

    async def timed(self, step: Awaitable[_T]) -> _T:
        """Let the interpreter work, and count the time."""
        clock = asyncio.get_running_loop().time
        began = clock()
        try:
            return await step
        finally:
            self.interpreter_s += clock() - began

    async def _called(self, snapshot: AsyncFunctionSnapshot) -> AsyncSnapshot:
        name = str(snapshot.function_name)
        if not snapshot.is_os_function and not name.startswith(f"{PACKAGE}."):
            message = f"name '{one_line(name, _NAME_CHARS)}' is not defined"
            unknown: ExternalSettledResult = {"exc_type": "NameError", "message": message}
            return await self.timed(snapshot.resume(unknown))
        if not snapshot.is_os_function:
            call = await self._gate.begin(name, snapshot.args, snapshot.kwargs)
            self._pending[snapshot.call_id] = call
            return await self.timed(snapshot.resume({"future": ...}))
        if name in _IMPORTS:
            return await self.timed(snapshot.resume_auto())
        if name == "asyncio.sleep":
            timer = asyncio.get_running_loop().create_task(self._slept(snapshot.args))
            self._timers.add(timer)
            self._pending[snapshot.call_id] = timer
            return await self.timed(snapshot.resume({"future": ...}))
        if name == "time.sleep":
            await self._slept(snapshot.args)
            return await self.timed(snapshot.resume({"return_value": None}))
        return await self.timed(snapshot.resume_not_handled())

    async def _results(self, snapshot: AsyncFutureSnapshot) -> dict[int, ExternalSettledResult]:
        """Return the answers that are there, or nothing if the program waits for people only."""
        while True:
            numbers = [one for one in snapshot.pending_call_ids if one not in self.waiting]
            if not numbers:
                return {}
            calls = [self._pending[one] for one in numbers]
            if not any(call.done() for call in calls):
                await asyncio.wait(calls, return_when=asyncio.FIRST_COMPLETED)
            results: dict[int, ExternalSettledResult] = {}
            for number in numbers:
                if self._pending[number].done():
                    answer = self._pending[number].result()
                    if isinstance(answer, WaitingCall):
                        self.waiting[number] = answer
                    else:
                        results[number] = _settled(answer)
            if results:
                return results

    async def _slept(self, arguments: tuple[Any, ...]) -> Answer:
        """Sleep as asked; what is no sensible time is longer than the run may last."""
        asked = arguments[0] if arguments else 0.0
        sensible = isinstance(asked, int | float) and 0 <= asked < self._longest_s
        await asyncio.sleep(asked if sensible else self._longest_s)
        return Answer()


def _settled(answer: Answer) -> ExternalSettledResult:
    # Only built-in exceptions cross, so what a program can tell them apart by is in the text.
    if answer.error:
        return {"exc_type": "RuntimeError", "message": answer.error}
    return {"return_value": answer.value}
