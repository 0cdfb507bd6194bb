"""The events of one answer on their way to the client, as it knows its ids and tokens."""

import asyncio
from collections.abc import AsyncIterator, Callable
from functools import partial
from typing import Any, Protocol, Self

from gateway.domain.calls import Form, Permit, RawAnswer, ServerEvent
from gateway.domain.nodes import weight
from gateway.turns import finished
from gateway.upstream.faults import unusable
from gateway.upstream.own_asking import Asking, Beside
from gateway.upstream.own_resume import PAUSED
from gateway.upstream.replies import discard
from gateway.wire import jsontext
from gateway.wire.server_message import ServerMessage
from gateway.wire.sse import data_event


class Answering(Protocol):
    """Whoever asked."""

    async def read(self, of: Permit, data: bytes) -> ServerMessage:
        """Return the message in `data`, which answers `of` or came beside that."""
        ...

    async def question(
        self, asking: Asking, message: ServerMessage, *, is_ours: bool
    ) -> bytes | None:
        """Return what the client is to be asked; `None` for what it cannot be.

        `is_ours` is what `is_for` said when it came.
        """
        ...

    def is_for(self, asking: Asking) -> bool:
        """Whether what came on the stream of an answer can only be for the client that waits for it."""
        ...

    def overheard(self, asking: Asking, message: ServerMessage) -> None:
        """Take what may be for others than the client of a call, whose stream it came on."""
        ...

    def ended(self, asking: Asking) -> None:
        """Take note that nobody reads the answer any more."""
        ...


class Events:
    """The events of one answer, as the client knows its ids and tokens. Whoever holds it closes it."""

    def __init__(
        self, events: AsyncIterator[ServerEvent], asking: Asking, client: Answering
    ) -> None:
        self._events = events
        self._asking = asking
        self._client = client
        self._ended = False
        self._pending: asyncio.Task[ServerEvent | None] | None = None

    def __aiter__(self) -> Self:
        return self

    async def __anext__(self) -> ServerEvent:
        """Return the next event that is for the client.

        Raises:
            UpstreamFailed: The connection broke, the upstream fell silent, or the client cancelled.
            LimitExceeded: An event or the stream is larger than the limits allow.

        """
        while (event := await self._asking.wait(self._soonest())) is not None:
            if event is PAUSED:
                return event
            if event.data is None:
                continue  # with ids of events, which nobody could come back with
            # Told now: while it is read others may come and go.
            is_ours = self._client.is_for(self._asking)
            message = await self._client.read(self._asking.permit, event.data)
            told = await self._told(message, event.data, is_ours)
            if told is not None:
                return await in_an_event(self._asking.permit, told, beside=event.beside)
        raise StopAsyncIteration

    async def aclose(self) -> None:
        """Stop reading."""
        if not self._ended:
            self._ended = True
            if self._pending is not None:
                self._pending.cancel()
                await asyncio.wait([self._pending])
            if self._asking.answering is not None:
                await abandon(self._asking.answering)
            close = getattr(self._events, "aclose", None)
            if close is not None:
                await close()
            self._client.ended(self._asking)

    async def _soonest(self) -> ServerEvent | None:
        """Return what comes first, on the stream of the answer or beside it; `None` at its end."""
        if self._asking.first is not None:
            event, self._asking.first = self._asking.first, None
            return event
        if self._pending is None:
            if not self._asking.hears:
                return await _next(self._events)
            self._pending = asyncio.create_task(_next(self._events))
        earlier = await sooner(self._asking.beside_it, self._pending)
        if earlier is None:
            pending, self._pending = self._pending, None
            return pending.result()
        return earlier

    async def _told(self, message: ServerMessage, data: bytes, is_ours: bool) -> bytes | None:
        match message.form:
            case Form.RESPONSE:
                if message.id != self._asking.message.id:
                    return None  # of another request, whose stream this is not
                self._asking.answered = True
                return await self._written(self._asking.named, message)
            case Form.REQUEST:
                return await self._client.question(self._asking, message, is_ours=is_ours)
            case _ if message.method == "notifications/progress":
                return await self._written(self._progress, message)
            case _:
                self._client.overheard(self._asking, message)
                return data if is_ours else None

    async def _written(
        self, write: Callable[[ServerMessage], bytes | None], message: ServerMessage
    ) -> bytes | None:
        who = self._asking.permit.principal.person
        return await finished(who, weight(message.data), write, message)

    def _progress(self, message: ServerMessage) -> bytes | None:
        asking = self._asking
        if asking.token is None or message.params.get("progressToken") != asking.message.id:
            return None
        params = {**message.params, "progressToken": asking.token}
        return jsontext.write({**message.content, "params": params}).encode()


async def sooner(beside: Beside, pending: "asyncio.Task[Any]") -> ServerEvent | None:
    """Return what was said beside an answer, if that comes before `pending` is done."""
    getting = asyncio.create_task(beside.get())
    try:
        await asyncio.wait({getting, pending}, return_when=asyncio.FIRST_COMPLETED)
        return getting.result() if getting.done() else None
    finally:
        getting.cancel()


async def answer_in(of: Permit, answering: "asyncio.Task[RawAnswer]") -> AsyncIterator[ServerEvent]:
    """Yield the events of the answer to `of`, which is still to come."""
    answer = await answering
    if isinstance(answer.body, bytes):
        if not answer.body:
            raise unusable(f"status {answer.status}")
        yield await in_an_event(of, answer.body)
        return
    try:
        async for event in answer.body:
            yield event
    finally:
        await discard(answer)


async def in_an_event(of: Permit, data: bytes, *, beside: bool = False) -> ServerEvent:
    """Return an event that carries `data`, which answers `of` or came `beside` that."""
    event = partial(data_event, beside=beside)
    return await finished(of.principal.person, weight(data), event, data)


async def abandon(answering: "asyncio.Task[RawAnswer]") -> None:
    """Wait no longer for an answer; one that has come, and that nobody has begun to read, is closed."""
    if not answering.cancel() and not answering.cancelled() and answering.exception() is None:
        await discard(answering.result())


async def _next(events: AsyncIterator[ServerEvent]) -> ServerEvent | None:
    return await anext(events, None)
