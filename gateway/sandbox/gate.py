"""Between a program and what decides on its calls: counts, bounds and normalises them.

Nothing that comes out of a program is trusted here: it is data, which becomes strict JSON before
anybody judges it, and so does what goes in.
"""

import asyncio
import math
from collections.abc import Coroutine, Mapping, Sequence
from dataclasses import replace
from typing import Any, Final

from gateway.domain._value import value
from gateway.domain.nodes import amount
from gateway.domain.programs import CallState, ProgramCall, ProgramTool, SandboxLimits
from gateway.ports.sandbox import Broker, NeedsApproval, ToolRefused
from gateway.sandbox.names import ToolTable, shown
from gateway.sandbox.screen import one_line
from gateway.turns import QUICK_NODES, finished
from gateway.wire import jsontext

_DEPTH: Final = 64
_TEXT_CHARS: Final = 2000
"""Of an error that a program is told."""
_SETTLE_S: Final = 5.0
"""What a call that was cut off gets to end."""

_CUT_OFF: Final = {CallState.UNKNOWN: "outcome_unknown", CallState.REFUSED: "not_sent"}
"""Why a call has no answer that had begun, and one that had not."""


class BudgetSpent(Exception):
    """The program wants to call more than it may; that ends it."""


@value
class Answer:
    """What a program gets for a call: a value, or the text of an exception."""

    value: Any = None
    error: str = ""


@value
class WaitingCall:
    """A call that waits for a person."""

    seq: int
    path: str
    """`tools.github.create_issue`."""
    arguments: Mapping[str, Any]
    question: str


def plain(content: Any, most: int) -> Any:
    """Return `content` as strict JSON of at most `most` bytes, and of values that nobody else holds.

    Raises:
        ValueError: There is no such JSON: NaN, half of a character, an integer beyond 2^53-1,
            values of other types, two members of one name, or nested too deep. Or it is too large.

    """
    large = f"more than {most} bytes of JSON"
    if _least_bytes(content, most, {}, _DEPTH) > most:
        raise ValueError(large)
    try:
        octets = jsontext.write(content).encode()
    except (TypeError, ValueError, RecursionError) as error:
        raise ValueError(f"not JSON: {one_line(str(error), 200)}") from error
    if len(octets) > most:
        raise ValueError(large)
    return jsontext.read_exact(octets, _DEPTH)


def _least_bytes(content: Any, most: int, known: dict[int, int], levels: int) -> int:
    """Return how many bytes `content` takes at least; of more than `most` only that it is more.

    One text can stand in a list a million times, and a list in itself by way of others: a few
    kilobytes in a program, and more than there is memory once they are written out. So it is
    counted first, and what stands in several places once: `known` has the sizes by identity.

    Raises:
        ValueError: It is nested too deep, or holds what no JSON says, which would be written as
            something else.

    """
    if isinstance(content, str):
        return len(content) + 2
    if not isinstance(content, list | tuple | dict):
        number = isinstance(content, int | float)
        if not (content is None or (number and abs(content) < math.inf)):
            told = str(content) if number else type(content).__name__
            raise ValueError(f"not JSON: {one_line(told, 200)}")
        return 1
    if id(content) in known:
        return known[id(content)]
    if levels == 0:
        raise ValueError(f"nested deeper than {_DEPTH} levels")
    total = 1 + len(content)
    inner = (*content, *content.values()) if isinstance(content, dict) else content
    for one in inner if total <= most else ():
        total += _least_bytes(one, most, known, levels - 1)
        if total > most:
            break
    known[id(content)] = total
    return total


class Gate:
    """The calls of one run, in the order in which they were made. Of one event loop."""

    def __init__(
        self,
        broker: Broker,
        table: ToolTable,
        limits: SandboxLimits,
        *,
        made: Sequence[ProgramCall] = (),
    ) -> None:
        """Begin with the calls that were `made` before the run was parked."""
        self._broker = broker
        self._table = table
        self._limits = limits
        self._turns = asyncio.Semaphore(limits.parallel)
        self._calls = list(made)
        self._became: dict[int, tuple[CallState, str]] = {}
        self._tasks: dict[int, asyncio.Task[Answer | WaitingCall]] = {}

    @property
    def who(self) -> str:
        """Whose turn it is for what is large."""
        return self._broker.who

    @property
    def calls(self) -> tuple[ProgramCall, ...]:
        """What was called so far."""
        return tuple(map(self._now, self._calls))

    async def begin(
        self, path: str, positional: Sequence[Any], named: Mapping[str, Any]
    ) -> asyncio.Task[Answer | WaitingCall]:
        """Begin a call, and return what ends with its answer.

        Raises:
            BudgetSpent: The run has made as many as it may.

        """
        if len(self._calls) >= self._limits.calls:
            raise BudgetSpent(f"a program may call tools {self._limits.calls} times")
        seq = len(self._calls) + 1
        tool = self._table.find(path)
        self._calls.append(_record(seq, path, tool))
        if tool is None:
            return self._start(seq, self._refused(seq, "unknown_tool", "there is none"))
        try:
            given = _given(positional, named)
            arguments = await self.plain(given, self._limits.arguments_bytes)
        except ValueError as error:
            refusal = self._refused(seq, "invalid_arguments", f"the arguments are {error}")
            return self._start(seq, refusal)
        return self._start(seq, self._made(seq, path, tool, arguments))

    def again(
        self, waiting: WaitingCall, refused: ToolRefused | None
    ) -> asyncio.Task[Answer | WaitingCall]:
        """Make a call once more that waited, or refuse it. It has been counted already."""
        tool = self._table.find(waiting.path)
        self._note(waiting.seq, CallState.REFUSED)
        if refused is not None:
            work = self._refused(waiting.seq, refused.code, refused.text)
        elif tool is None:
            work = self._refused(waiting.seq, "unknown_tool", "there is none any more")
        else:
            return self._start(
                waiting.seq, self._made(waiting.seq, waiting.path, tool, waiting.arguments)
            )
        return self._start(waiting.seq, work)

    async def plain(self, content: Any, most: int) -> Any:
        """Return what `plain` does; of what is large beside the loop, in the turn of its author.

        Raises:
            ValueError: As `plain`.

        """
        nodes = amount(content, QUICK_NODES)
        return await finished(self.who, nodes, plain, content, most)

    async def finish(self, within_s: float) -> None:
        """Wait for what is under way; cut off what takes longer than `within_s`.

        What a broker raises that is no refusal is raised here.
        """
        if self._under_way and within_s > 0:
            await asyncio.wait(self._under_way, timeout=within_s)
        await self.cut_off()
        for task in self._tasks.values():
            if task.done() and not task.cancelled():
                task.result()

    async def cut_off(self) -> None:
        """Cancel what is under way, and wait until it has ended, though not for ever."""
        left = self._under_way
        for task in left:
            task.cancel()
        if left:
            await asyncio.wait(left, timeout=_SETTLE_S)
        for task in self._tasks.values():
            if task.done() and not task.cancelled():
                task.exception()  # seen; otherwise the loop complains of it
        for call in self._calls:
            state, code = self._became.get(call.seq, (call.state, call.code))
            if not code and state in _CUT_OFF:
                self._note(call.seq, state, _CUT_OFF[state])

    @property
    def _under_way(self) -> list[asyncio.Task[Answer | WaitingCall]]:
        return [task for task in self._tasks.values() if not task.done()]

    def _start(
        self, seq: int, work: Coroutine[Any, Any, Answer | WaitingCall]
    ) -> asyncio.Task[Answer | WaitingCall]:
        task = self._tasks[seq] = asyncio.get_running_loop().create_task(work)
        return task

    async def _refused(self, seq: int, code: str, text: str) -> Answer:
        return self._error(seq, ToolRefused(code, text))

    async def _made(
        self, seq: int, path: str, tool: ProgramTool, arguments: Mapping[str, Any]
    ) -> Answer | WaitingCall:
        try:
            async with self._turns:
                # From here on it may be carried out, until somebody says that it was not.
                self._note(seq, CallState.UNKNOWN)
                result = await self._broker.call(tool.server, tool.name, arguments, seq=seq)
        except ToolRefused as refused:
            return self._error(seq, refused)
        except NeedsApproval as needed:
            self._note(seq, CallState.WAITING)
            return WaitingCall(seq=seq, path=path, arguments=arguments, question=needed.question)
        try:
            answer = Answer(value=await self.plain(result, self._limits.result_bytes))
        except ValueError as error:
            unusable = ToolRefused("invalid_result", f"its result is {error}", reached=True)
            return self._error(seq, unusable)
        self._note(seq, CallState.DONE)
        return answer

    def _error(self, seq: int, refused: ToolRefused) -> Answer:
        state = CallState.FAILED if refused.reached else CallState.REFUSED
        self._note(seq, CallState.UNKNOWN if refused.unknown else state, refused.code)
        call = self._calls[seq - 1]
        name = shown(call.server, call.tool) if call.server else call.tool
        text = one_line(f"ToolError[{refused.code}] {name}: {refused.text}", _TEXT_CHARS)
        return Answer(error=text)

    def _note(self, seq: int, state: CallState, code: str = "") -> None:
        self._became[seq] = state, code

    def _now(self, call: ProgramCall) -> ProgramCall:
        became = self._became.get(call.seq)
        return call if became is None else replace(call, state=became[0], code=became[1])


def _record(seq: int, path: str, tool: ProgramTool | None) -> ProgramCall:
    """Return a call that has not been made yet."""
    if tool is None:
        return ProgramCall(seq=seq, server="", tool=one_line(path, 100), state=CallState.REFUSED)
    return ProgramCall(
        seq=seq,
        server=tool.server,
        tool=tool.name,
        state=CallState.REFUSED,
        read_only=tool.read_only,
    )


def _given(positional: Sequence[Any], named: Mapping[str, Any]) -> Mapping[str, Any]:
    """Return the arguments of a call: given by name, or as one dict.

    Raises:
        ValueError: They are neither.

    """
    if not positional:
        return named
    if named or len(positional) > 1 or not isinstance(positional[0], dict):
        raise ValueError("to be given by name, or as one dict")
    return positional[0]
