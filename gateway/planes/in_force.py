"""What planes that ask by gRPC need of the configuration in force."""

import asyncio
import logging
from collections.abc import Callable, Coroutine, Mapping
from contextlib import AbstractContextManager
from functools import partial
from typing import Any, Final, Protocol, TypeAlias, TypeVar

from gateway.domain._value import value
from gateway.domain.planes import Plane
from gateway.errors import GatewayError, PolicyUnavailable, RateLimited
from gateway.pipeline.plane_records import Asking
from gateway.pipeline.plane_results import Pending
from gateway.pipeline.plane_traffic import Shown, Turned
from gateway.wire.jsontext import WireLimits

T = TypeVar("T")
logger = logging.getLogger(__name__)


class Traffic(Protocol):
    """The one path, of calls that a plane shows whole; see `PlaneTraffic`."""

    async def refuse(
        self, error: GatewayError, *, source_ip: str, request_id: str, plane: Plane | None
    ) -> Turned:
        """Return the no to what could not be read, on record."""
        ...

    def sealed(self, pending: Pending, session: str) -> str | None:
        """Return what is given out in place of a server's session id, if it is one."""
        ...

    async def admit(self, asking: Asking, shown: Shown) -> Pending | Turned:
        """Return what is to be sent, or a no."""
        ...

    async def give(
        self, plane: Plane, pending: Pending, body: bytes, status: int = 200
    ) -> bytes | Turned:
        """Return what is to be given out of what came back, or a no."""
        ...

    async def took(self, pending: Pending, status: int) -> Turned | None:
        """Put on record that a server took what has no answer."""
        ...

    async def withdraw(self, plane: Plane, pending: Pending, error: GatewayError) -> Turned:
        """Return the no in place of a yes that its plane was never given, with nothing owed for it."""
        ...

    async def fail(
        self, plane: Plane, pending: Pending, why: str | RateLimited, status: int | None = None
    ) -> Turned:
        """Return the no in place of an answer that did not come, or is one too many at once."""
        ...


@value
class InForce:
    planes: Mapping[str, Plane]
    traffic: Traffic
    challenge: Callable[[str], tuple[str, tuple[str, ...]]]
    """`resource_metadata` and scopes of an endpoint, for whoever lacks some."""
    limits: WireLimits
    refused_unread: Callable[[str, str], None] = lambda _code, _address: None
    """Counts what is refused without a record of its own: its code and the address."""


Lease: TypeAlias = Callable[[], AbstractContextManager[InForce]]
"""Keeps the configuration that is in force as long as something is under way by it."""

_WORK: Final[set[asyncio.Task[Any]]] = set()


async def in_time(
    seconds: float,
    work: Coroutine[Any, Any, T],
    late: Callable[[T], Coroutine[Any, Any, Any] | None] = lambda _: None,
) -> T:
    """Return what `work` returns, within so many seconds.

    It goes on where nobody waits any more, also because whoever asked has gone: what it has put on
    record, it has to end. `late` says what becomes of what it returns then, which nobody is given.

    Raises:
        PolicyUnavailable: It takes longer; whoever asked has given up by then.

    """
    task = asyncio.ensure_future(work)
    _WORK.add(task)
    task.add_done_callback(_done)
    is_waited_for = False
    try:
        done, _ = await asyncio.wait({task}, timeout=seconds)
        is_waited_for = bool(done)
    finally:
        if not is_waited_for:
            task.add_done_callback(partial(_came_late, late))
    if not done:
        raise PolicyUnavailable("there was no answer in time")
    return task.result()


def never_given() -> PolicyUnavailable:
    """Return why a call that was allowed was not sent: nobody waited for the yes any more."""
    why = [("never_given", "the yes came too late, and was given to nobody")]
    return PolicyUnavailable("there was no answer in time", reasons=why)


def beside(work: Coroutine[Any, Any, Any]) -> None:
    """Have `work` done, for which nobody waits."""
    task = asyncio.ensure_future(work)
    _WORK.add(task)
    task.add_done_callback(_done)


def _came_late(late: Callable[[T], Coroutine[Any, Any, Any] | None], task: asyncio.Task[T]) -> None:
    if task.cancelled() or task.exception() is not None:
        return
    if (left := late(task.result())) is not None:
        beside(left)


def _done(task: asyncio.Task[Any]) -> None:
    _WORK.discard(task)
    if not task.cancelled() and (error := task.exception()) is not None:
        logger.warning("what a plane asked ended with %s", type(error).__name__)
