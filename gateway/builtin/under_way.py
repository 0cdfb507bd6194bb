"""Calls that the gateway answers itself, while they are under way: clients can cancel them."""

import asyncio
from collections.abc import Coroutine
from typing import Any, TypeAlias, TypeVar

from gateway.domain.calls import Permit
from gateway.errors import UpstreamFailed

_Key: TypeAlias = tuple[str, str, type, object]
"""Whose it is, the session and the request; 1 and "1" are different ids (JSON-RPC 2.0 section 4)."""
Found = TypeVar("Found")


class UnderWay:
    """Ends calls whose clients say that they wait no more. Of one event loop.

    In the stateless revision a client says so by going away, which cancels what waits here.
    """

    def __init__(self) -> None:
        self._tasks: dict[_Key, asyncio.Task[Any]] = {}

    async def wait(self, permit: Permit, work: Coroutine[Any, Any, Found]) -> Found:
        """Return what `work` does for the call, unless that is cancelled; it has ended either way.

        Raises:
            UpstreamFailed: The client cancelled it.

        """
        key = _key(permit, permit.call.message.id)
        if key is None:
            return await work
        task: asyncio.Task[Found] = asyncio.create_task(work)
        self._tasks[key] = task
        try:
            return await task
        except asyncio.CancelledError:
            waiting = asyncio.current_task()
            if waiting is None or waiting.cancelling():
                raise
            raise UpstreamFailed("the client cancelled the call") from None
        finally:
            if self._tasks.get(key) is task:
                del self._tasks[key]

    def cancel(self, permit: Permit) -> None:
        """Cancel the call that `notifications/cancelled` names, if it is of the same session."""
        key = _key(permit, permit.call.message.params.get("requestId"))
        task = None if key is None else self._tasks.get(key)
        if task is not None:
            task.cancel()


def _key(permit: Permit, id_: object) -> _Key | None:
    """Return how a call is known; `None` for one of no session, which nothing else is said of."""
    if permit.session is None or not isinstance(id_, str | int):
        return None
    return (permit.principal.key, permit.session, type(id_), id_)
