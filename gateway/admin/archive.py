"""Reads of the log that are bounded, one after another, beside the index that they rest on."""

import asyncio
import logging
import time
from collections.abc import Callable, Sequence
from typing import Protocol, TypeVar

from gateway.admin.rows import Rows
from gateway.audit.query import QueryError, Statement
from gateway.audit.questions import Progress
from gateway.errors import AuditUnavailable, BadCommand
from gateway.turns import in_thread

logger = logging.getLogger(__name__)

T = TypeVar("T")

_CATCH_UP_S = 1.0
"""How long a question waits for the index, which is seldom more than a second behind."""
_LOOK_AGAIN_S = 0.5
_REST = 3.0
"""Of the time that a batch took: making an index may take a quarter of one core, not all of it."""


class Index(Protocol):
    """What answers are made from; used by one thread at a time."""

    def catch_up(self, enough: Callable[[], bool]) -> Progress:
        """Take up records until there are no more, or it is `enough`.

        Raises:
            AuditUnavailable: They could not be.

        """
        ...


class Answers(Protocol):
    """Blocking reads, each of them one short transaction; used by one thread at a time.

    Raises:
        QueryTooLong: It was given up.

    """

    def page(self, statement: Statement) -> Rows: ...
    def who_called(self, server: str, tool: str, since_us: int, limit: int) -> Rows: ...
    def top(self, subject: str, since_us: int, limit: int) -> Rows: ...
    def undeclared(self, since_us: int, limit: int) -> Rows: ...
    def refusals(self, since_us: int, limit: int, until_us: int | None = None) -> Rows: ...
    def flows(self, source: str, server: str | None, since_us: int, limit: int) -> Rows: ...
    def refused(self, since_us: int, before: tuple[int, int], limit: int) -> Rows: ...
    def outside(
        self,
        source: str,
        since_us: int,
        before: tuple[int, int],
        allowed: bool | None,
        limit: int,
    ) -> Rows: ...
    def marked(self, text: str, newest: int | None = None) -> list[int]: ...
    def records(self, leaves: Sequence[int]) -> Rows: ...
    def signed(self) -> int: ...


class Archive:
    """The log as people search it."""

    def __init__(self, answers: Answers, index: Index) -> None:
        self._answers = answers
        self._index = index
        self._turn = asyncio.Lock()

    async def page(self, statement: Statement) -> Rows:
        """Return the records that a compiled filter selects.

        Raises:
            BadCommand: The log is too large for it.
            AuditUnavailable: The index is needed, and cannot be used.

        """
        if statement.words:
            return (await self.asked(lambda answers: answers.page(statement)))[0]
        return await self._read(lambda: self._answers.page(statement))

    async def asked(self, read: Callable[[Answers], T]) -> tuple[T, Progress]:
        """Return what `read` does once the index has caught up, and how far it has come.

        Raises:
            BadCommand: The log is too large for it.
            AuditUnavailable: The index cannot be used.

        """

        def work() -> tuple[T, Progress]:
            end = time.monotonic() + _CATCH_UP_S
            progress = self._index.catch_up(lambda: time.monotonic() > end)
            return read(self._answers), progress

        return await self._read(work)

    async def follow(self) -> None:
        """Keep the index up with the log until cancelled."""
        failing = False
        while True:
            began = time.monotonic()
            try:
                progress = await asyncio.to_thread(self._index.catch_up, lambda: True)
            except AuditUnavailable as error:
                if not failing:
                    logger.warning("%s: %s", error.public, error.detail)
                failing = True
                await asyncio.sleep(_LOOK_AGAIN_S * 20)
                continue
            failing = False
            wait = (time.monotonic() - began) * _REST
            await asyncio.sleep(max(wait, _LOOK_AGAIN_S) if progress.caught_up else wait)

    async def _read(self, read: Callable[[], T]) -> T:
        # In a thread, so that a long read does not hold up the calls; one at a time, because there
        # is one connection.
        try:
            return await in_thread(self._turn, read)
        except QueryError as error:
            raise BadCommand(str(error)) from error


def unusable(error: QueryError) -> BadCommand:
    """Return the refusal of a filter that cannot be used.

    Its text is for whoever asked: it quotes what they wrote, which may be a value of a call.
    """
    return BadCommand(str(error), detail="a filter that cannot be used")
