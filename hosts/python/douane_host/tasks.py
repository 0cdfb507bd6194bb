"""What a person asked for, and the run that is begun for it at each gateway."""

import logging
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from contextvars import ContextVar
from dataclasses import dataclass
from typing import Any, Literal

import anyio

from douane_host import wire

log = logging.getLogger("douane_host")

State = Literal["later", "nowhere", "declared", "begun"]
"""What a gateway made of a task: asked again with the next request, never told of it, told of it
with each request, or in a run of its own besides."""

_END_S = 5.0
"""For how long the end of a task waits for its run to be ended."""


@dataclass(frozen=True)
class Run:
    """What came of beginning one."""

    state: State
    handle: str | None = None


class Task:
    """What one person asked for; in force for what is sent while it is under way."""

    def __init__(self, words: str | None, tools: Sequence[str] | None) -> None:
        """Take what is asked; a conversation has no words yet, and gets them by `says`."""
        self._grows = words is None
        self._words = [] if words is None else [wire.words(words)]
        self._tools = None if tools is None else list(tools)
        self._runs: dict[str, Run] = {}
        self._ends: dict[str, Callable[[str], Awaitable[None]]] = {}
        self._lock = anyio.Lock()
        self.ended = False

    def says(self, words: str) -> None:
        """Take what the person says next. Their own words, never a model's or a document's.

        Raises:
            RuntimeError: The task is one request, whose words do not change.

        """
        if not self._grows:
            raise RuntimeError("a task has the words that it began with: use conversation()")
        self._words = wire.newest([*self._words, wire.words(words)])

    @property
    def declared(self) -> dict[str, Any]:
        """The task as `_meta["douane/task"]` has it; of very many words the newest."""
        told: dict[str, Any] = {}
        if self._words:
            told["prompt"] = "\n".join(self._words)
        if self._tools is not None:
            told["tools"] = self._tools
        return told

    async def told_to(
        self,
        gateway: str,
        begin: Callable[[dict[str, Any]], Awaitable[Run]],
        end: Callable[[str], Awaitable[None]],
    ) -> dict[str, Any]:
        """Return what a request to `gateway` is to say; with the first one a run is begun there.

        Whatever the gateway answered stays: a run that was begun later would not have seen what
        was read before.
        """
        async with self._lock:
            run = self._runs.get(gateway)
            if run is None:
                run = await begin(self._begins_with)
                if run.state != "later":
                    self._runs[gateway] = run
            if run.handle is not None:
                self._ends[gateway] = end  # by what was sent last: tokens change
        if run.state not in {"declared", "begun"}:
            return {}
        handle = {} if run.handle is None else {wire.RUN_KEY: run.handle}
        return {wire.TASK_KEY: self.declared, **handle}

    @property
    def _begins_with(self) -> dict[str, Any]:
        """What stays for as long as the run does; the words of a conversation do not."""
        told = self.declared
        if self._grows:
            told.pop("prompt", None)
        return {"task": told} if told else {}

    async def end(self) -> None:
        """End what was begun. Where that fails, a run ends by itself when it was idle for long."""
        self.ended = True
        with anyio.move_on_after(_END_S, shield=True):
            for gateway, end in self._ends.items():
                handle = self._runs[gateway].handle
                try:
                    await end(str(handle))
                except Exception:
                    log.debug("the run of a task was not ended at %s", gateway, exc_info=True)


_under_way: ContextVar[Task | None] = ContextVar("douane_task", default=None)


def current() -> Task | None:
    """Return the task that is under way here."""
    task = _under_way.get()
    return None if task is None or task.ended else task


def task(words: str, *, tools: Sequence[str] | None = None) -> AbstractAsyncContextManager[Task]:
    """Declare what a person asked for with every request that is sent inside of this context.

    `words` are the person's own: what a model, a document or another agent wrote is not to be
    among them, for a gateway takes what they name for chosen by the person. `tools` is a grant that
    narrows: a gateway denies every other one.

    Raises:
        RuntimeError: One is under way here; its run has seen what this one would not know of.

    """
    return _going(Task(words, tools))


def conversation(*, tools: Sequence[str] | None = None) -> AbstractAsyncContextManager[Task]:
    """Declare what a person says in a conversation: one run, and words that come with `says`.

    Raises:
        RuntimeError: As for `task`.

    """
    return _going(Task(None, tools))


@asynccontextmanager
async def _going(task: Task) -> AsyncIterator[Task]:
    if current() is not None:
        raise RuntimeError("a task is under way here: end it before another one begins")
    before = _under_way.get()
    _under_way.set(task)
    try:
        yield task
    finally:
        _under_way.set(before)
        await task.end()
