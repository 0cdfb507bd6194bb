"""State that replicas share: a `StateWriter` over PostgreSQL, and memories that follow the others' commits."""

import asyncio
import logging
import math
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing, contextmanager, suppress
from functools import partial
from typing import Any, Final, Self, TypeVar, cast

import psycopg

from gateway.domain.trouble import Trouble
from gateway.errors import AuditUnavailable, ConfigError, GatewayError
from gateway.storage.committer import NOT_RECORDED, NotAccepted
from gateway.storage.postgres.clock import Told, untold
from gateway.storage.postgres.connection import Connection, Session, connect
from gateway.storage.postgres.jobs import (
    LOOK,
    Overtaken,
    Unsettled,
    again,
    became,
    committed,
)
from gateway.storage.postgres.news import News, Shown
from gateway.storage.postgres.spelling import SpelledStatements
from gateway.storage.state import Remembering, Tables

T = TypeVar("T")

logger = logging.getLogger(__name__)

_PATIENCE_S: Final = 5.0
_EVERY_S: Final = 0.25
_MOST_WAITING: Final = 10_000


class _Asked:
    """What the thread is asked for."""

    __slots__ = ("begun", "future", "refused")

    def __init__(self, future: "asyncio.Future[Any]") -> None:
        self.future = future
        self.begun = False
        self.refused = False
        """Whether nobody waits for it any more: what has not begun by then does not."""


class SharedState:
    """Writes and follows for one event loop, one thing after the other in a thread of its own.

    Each job is a transaction of its own. Of many replicas' jobs that touch the same, one is committed
    and the others begin anew. What was awaited is durable; nothing is told before its commit.
    """

    def __init__(
        self, conninfo: str, *, deadline_s: float, every_s: float = _EVERY_S, told: Told = untold
    ) -> None:
        """Connect at first use; see `open`."""
        self._conninfo = conninfo
        self._deadline_s = deadline_s
        self._every_s = every_s
        self._loop = asyncio.get_running_loop()
        self._session = Session(conninfo, application="douane state", patience_s=_PATIENCE_S)
        self._thread = ThreadPoolExecutor(1, thread_name_prefix="douane-state")
        self._waiting = 0
        self._closing = False
        self._news = News(told)
        self._followed: list[Remembering] = []
        self._look: _Asked | None = None
        self._following: asyncio.Task[None] | None = None
        self.shown_at = -math.inf
        """When memories were last shown what others had committed, by `time.monotonic`."""
        self.problem = ""
        """Why the last thing that was asked of the database failed; empty if it did not."""

    @classmethod
    def open(
        cls,
        conninfo: str,
        *,
        deadline_s: float = 2.0,
        every_s: float = _EVERY_S,
        told: Told = untold,
    ) -> Self:
        """Return the state in a database that has its tables; `told` is told the time at each look.

        Raises:
            ConfigError: It cannot be used.

        """
        opened = cls(conninfo, deadline_s=deadline_s, every_s=every_s, told=told)
        try:
            opened._session.use(opened._news.begin)
        except psycopg.Error as error:
            opened._session.close()
            raise ConfigError(f"PostgreSQL cannot be used: {error}") from error
        return opened

    @contextmanager
    def reading(self) -> Iterator[Tables]:
        """Give what stores are filled through: all that was committed at one moment.

        Raises:
            ConfigError: It cannot be read now.

        """
        try:
            with closing(connect(self._conninfo, application="douane state, reading")) as opened:
                opened.execute(LOOK)
                yield SpelledStatements(opened)
        except psycopg.Error as error:
            raise ConfigError(f"PostgreSQL cannot be read: {error}") from error

    def follows(self, store: Remembering) -> None:
        """Have a store that was just filled show what others commit from now on."""
        self._followed.append(store)

    def start(self) -> None:
        """Look for what others have committed, four times a second, until the end."""
        self._following = asyncio.create_task(self._follow())

    @property
    def behind_s(self) -> float:
        """For how many seconds others may have committed what memories do not show."""
        return time.monotonic() - self._news.looked_at

    async def run(
        self, job: Callable[[Tables], T], *, committed: Callable[[T], None] | None = None
    ) -> T:
        """Return what `job` returns, once its changes are durable; see `StateWriter`."""

        def told(result: T) -> T:
            if committed is not None:
                committed(result)
            return result

        asked = self._asked(partial(self._made, job), told)
        try:
            result: T = await self._answered(asked)
        except AuditUnavailable:
            asked.refused = True
            raise
        return result

    async def caught_up(self) -> bool:
        """Have memories show all that others have committed by now; say whether they lacked any.

        Raises:
            AuditUnavailable: That is not known within the deadline.

        """
        asked = self._look
        # One that has begun may have looked before what is asked for was committed.
        if asked is None or asked.begun:
            asked = self._look = self._asked(self._looked, _show)
        lacked = bool(await self._answered(asked))
        if lacked:
            self.shown_at = time.monotonic()
        return lacked

    async def close(self) -> None:
        """Write what is waiting, and let go of the database."""
        self._closing = True
        if self._following is not None:
            self._following.cancel()
            await asyncio.wait([self._following])
        await asyncio.to_thread(self._thread.shutdown)
        self._session.close()

    def _asked(self, act: Callable[[], T], tell: Callable[[T], object]) -> _Asked:
        """Have the thread do `act`, and `tell` its result in the order of the commits."""
        if self._closing:
            raise AuditUnavailable(NOT_RECORDED, detail="the state is closed")
        if self._waiting >= _MOST_WAITING:
            raise AuditUnavailable(NOT_RECORDED, detail="too many changes wait")
        asked = _Asked(self._loop.create_future())
        self._waiting += 1
        self._thread.submit(self._work, asked, act, tell)
        return asked

    async def _answered(self, asked: _Asked) -> Any:
        try:
            async with asyncio.timeout(self._deadline_s):
                return await asyncio.shield(asked.future)
        except TimeoutError:
            detail = self.problem or "not durable within the deadline"
            raise AuditUnavailable(NOT_RECORDED, detail=detail) from None

    def _work(self, asked: _Asked, act: Callable[[], T], tell: Callable[[T], object]) -> None:
        """Do it, in the thread."""
        asked.begun = True
        done: Callable[[], object] = _nothing
        error: Exception | None = None
        try:
            if not asked.refused:
                done = partial(tell, act())
        except Exception as failed:  # noqa: BLE001 - whatever it is, whoever waits is told
            error = failed
        with suppress(RuntimeError):  # the event loop has ended
            self._loop.call_soon_threadsafe(self._tell, asked, done, error)

    def _tell(self, asked: _Asked, done: Callable[[], object], error: Exception | None) -> None:
        self._waiting -= 1
        self.problem = str(error) if isinstance(error, AuditUnavailable) else ""
        result: object = None
        try:
            result = done()
        except Exception as failed:
            logger.exception("memory met a bug in what was committed")
            error = failed
        if error is None:
            asked.future.set_result(result)
        else:
            asked.future.set_exception(error)
            asked.future.exception()  # whoever waited may have gone

    def _made(self, job: Callable[[Tables], T]) -> T:
        try:
            return again(lambda: self._session.use(partial(self._once, job=job)))
        except (GatewayError, ValueError, LookupError):
            raise  # the job's own no, of which nothing is left
        except psycopg.IntegrityError as error:
            raise NotAccepted(NOT_RECORDED, detail=str(error)) from error
        except Unsettled as lost:
            if became(self._conninfo, lost.mark, within_s=self._deadline_s):
                self._news.made(lost.mark.transaction)
                return cast("T", lost.result)
            raise AuditUnavailable(NOT_RECORDED, detail=str(lost)) from lost
        except (psycopg.Error, Overtaken) as error:
            raise AuditUnavailable(NOT_RECORDED, detail=str(error)) from error
        except Exception as error:
            logger.exception("a change of state met a bug")
            raise NotAccepted(NOT_RECORDED, detail=repr(error)) from error

    def _once(self, connection: Connection, job: Callable[[Tables], T]) -> T:
        result, transaction = committed(connection, lambda: job(SpelledStatements(connection)))
        if transaction is not None:
            self._news.made(transaction)
        return result

    def _looked(self) -> Shown:
        try:
            return self._session.use(lambda one: self._news.look(one, tuple(self._followed)))
        except psycopg.Error as error:
            raise AuditUnavailable(
                "what others have changed is not known", detail=str(error)
            ) from error

    async def _follow(self) -> None:
        trouble = Trouble()
        while True:
            wrong = ""
            try:
                await self.caught_up()
            except Exception as error:  # noqa: BLE001 - nothing ends it
                wrong = str(error)
            if trouble.is_new(wrong):
                logger.error("memories do not follow the database: %s", wrong)
            await asyncio.sleep(self._every_s)


def _nothing() -> None:
    return None


def _show(shown: Shown) -> bool:
    for one in shown:
        one()
    return bool(shown)
