"""Questions to the models of clients, on the streams of the answers to their own calls."""

import asyncio
import json
from collections.abc import AsyncGenerator, Callable, Coroutine, Mapping
from contextlib import suppress
from typing import Any, Final

from gateway.builtin.extract import METHOD, failure_of
from gateway.domain.calls import Permit, ServerEvent
from gateway.domain.nodes import weight
from gateway.domain.tools import Profile
from gateway.errors import GatewayError
from gateway.ports.sandbox import ToolRefused
from gateway.turns import finished
from gateway.wire import jsontext
from gateway.wire.own_abilities import abilities_of
from gateway.wire.sse import data_event

_SAMPLES: Final = "s"
_PATIENCE_S: Final = 300.0
"""How long a client may take; a program's own time is shorter, mostly."""

_MOST_UNREAD: Final = 16
"""Questions of one call that its client has not taken yet."""

_Result = Mapping[str, Any]


class ClientModels:
    """Asks clients of sessions. Each question goes the way of a server's: policy decides, it is recorded.

    Of one event loop.
    """

    def __init__(self, *, new_id: Callable[[], str]) -> None:
        self._new_id = new_id
        self._lines: dict[str, asyncio.Queue[ServerEvent]] = {}
        """What is to be said on the streams of calls under way, by their decisions."""
        self._asked: dict[str, asyncio.Future[_Result]] = {}
        """Who waits for the answer, by the question's id."""

    def takes(self, permit: Permit) -> bool:
        """Whether this call's client said, when its session began, that it has a model to ask."""
        return (
            permit.call.profile is Profile.LEGACY
            and permit.session is not None
            and _SAMPLES in abilities_of(permit.session)
        )

    def can_ask(self, permit: Permit) -> bool:
        """Whether this call's client can be asked on the stream of its answer."""
        return permit.decision.id in self._lines

    async def ask(self, permit: Permit, params: Mapping[str, Any]) -> Mapping[str, Any]:
        """Return the result of `sampling/createMessage`.

        Raises:
            ToolRefused: It may not be asked, or has not answered.

        """
        # No server can have an empty name, so no server's question has such an id.
        id_ = f"/{self._new_id()}"
        future: asyncio.Future[_Result] = asyncio.get_running_loop().create_future()
        self._asked[id_] = future
        content = {"jsonrpc": "2.0", "id": id_, "method": METHOD, "params": params}
        try:
            self._lines[permit.decision.id].put_nowait(data_event(jsontext.write_octets(content)))
            async with asyncio.timeout(_PATIENCE_S):
                return await future
        except asyncio.QueueFull as error:
            raise ToolRefused("timeout", "the client does not read what it is asked") from error
        except TimeoutError as error:
            raise ToolRefused("timeout", "the client's model has not answered") from error
        finally:
            del self._asked[id_]

    async def answered(self, permit: Permit, body: bytes) -> None:
        """Take an answer, which was let through to us: whoever waits for it gets it."""
        message = await finished(permit.principal.person, weight(body), json.loads, body)
        future = self._asked.get(str(message.get("id")))
        if future is None or future.done():
            return
        result = message.get("result")
        if isinstance(result, dict):
            future.set_result(result)
        else:
            future.set_exception(failure_of(message.get("error")))

    async def carried(
        self,
        permit: Permit,
        work: Coroutine[Any, Any, _Result],
        said: Callable[[_Result], bytes],
    ) -> _Result | AsyncGenerator[ServerEvent, None]:
        """Return what `work` does for the call; or a stream, once it asks, that ends with `said` of it.

        Whoever stops waiting for either ends the work.

        Raises:
            GatewayError: As `work` does.

        """
        key = permit.decision.id
        line: asyncio.Queue[ServerEvent] = asyncio.Queue(_MOST_UNREAD)
        self._lines[key] = line
        task = asyncio.ensure_future(work)
        task.add_done_callback(lambda _: self._lines.pop(key, None))
        try:
            first = await _next(line, task)
        except asyncio.CancelledError:
            await _ended(task)
            raise
        return task.result() if first is None else _streamed(first, line, task, said)


async def _streamed(
    first: ServerEvent,
    line: asyncio.Queue[ServerEvent],
    task: asyncio.Future[_Result],
    said: Callable[[_Result], bytes],
) -> AsyncGenerator[ServerEvent, None]:
    event: ServerEvent | None = first
    try:
        while event is not None:
            yield event
            event = await _next(line, task)
        yield data_event(said(task.result()))
    finally:
        await _ended(task)


async def _next(
    line: asyncio.Queue[ServerEvent], task: asyncio.Future[_Result]
) -> ServerEvent | None:
    """Return what is to be said next; nothing once the work is done."""
    coming = asyncio.ensure_future(line.get())
    try:
        await asyncio.wait((task, coming), return_when=asyncio.FIRST_COMPLETED)
        return None if task.done() else coming.result()
    finally:
        coming.cancel()


async def _ended(task: asyncio.Future[_Result]) -> None:
    task.cancel()
    with suppress(asyncio.CancelledError, GatewayError):
        await task
