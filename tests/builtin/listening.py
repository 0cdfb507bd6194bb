"""Clients that listen at `/mcp`, and servers that say something by themselves."""

import asyncio
import json
from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import asynccontextmanager
from dataclasses import replace
from typing import Any

from gateway.domain.calls import Form, Permit, RawAnswer, Reply, ServerEvent
from gateway.domain.tools import Profile
from tests.builtin.front import Site
from tests.pipeline.house import Answer, event, result, whole

LEGACY: dict[str, Any] = {"profile": Profile.LEGACY}
SESSION = "e.1"
ACKNOWLEDGED = "notifications/subscriptions/acknowledged"
UPDATED = "notifications/resources/updated"
TAG = "io.modelcontextprotocol/subscriptionId"


class Listener:
    """One stream, read as it comes."""

    def __init__(self, reply: Reply) -> None:
        self.reply = reply
        self.raw: list[bytes] = []
        self.ended = asyncio.Event()

    async def read(self) -> None:
        assert not isinstance(self.reply.body, bytes)
        try:
            async for part in self.reply.body:
                if part:
                    self.raw.append(part)
        finally:
            await self.reply.body.aclose()
            self.ended.set()

    @property
    def heard(self) -> list[Any]:
        """The messages so far, in order."""
        lines = b"".join(self.raw).splitlines()
        return [json.loads(line[6:]) for line in lines if line.startswith(b"data: ")]

    @property
    def methods(self) -> list[str]:
        return [one.get("method", "response") for one in self.heard]

    @property
    def ids(self) -> list[str]:
        """The ids of the events so far."""
        lines = b"".join(self.raw).splitlines()
        return [line[4:].decode() for line in lines if line.startswith(b"id: ")]


@asynccontextmanager
async def listening(
    site: Site, *, session: str = SESSION, after: str | None = None, who: str = "alice"
) -> AsyncIterator[Listener]:
    """Open the stream of a session."""
    call = site.call("GET", form=Form.STREAM, id_=None, session=session, who=who, **LEGACY)
    headers = () if after is None else (("last-event-id", after),)
    async with reading(site, await site.aggregate.handle(replace(call, headers=headers))) as found:
        yield found


@asynccontextmanager
async def subscribing(
    site: Site, wanted: Mapping[str, Any], *, id_: str | int = 7, who: str = "alice"
) -> AsyncIterator[Listener]:
    """Open a stream of the stateless revision."""
    call = site.call("subscriptions/listen", {"notifications": wanted}, id_=id_, who=who)
    async with reading(site, await site.aggregate.handle(call)) as found:
        yield found


@asynccontextmanager
async def reading(site: Site, reply: Reply) -> AsyncIterator[Listener]:
    listener = Listener(reply)
    task = asyncio.create_task(listener.read())
    try:
        await settled()
        await site.notices.look()
        yield listener
    finally:
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)
        await settled()


async def settled() -> None:
    """Let everything happen that waits for nothing."""
    for _ in range(30):
        await asyncio.sleep(0)


async def told(site: Site) -> None:
    """Let clients be told of all that has changed."""
    await settled()
    await site.notices.look()
    await settled()


class Feed:
    """The stream of a server that says what a test tells it to."""

    def __init__(self, *first: Mapping[str, Any]) -> None:
        self._events: asyncio.Queue[ServerEvent | None] = asyncio.Queue()
        self.closed = False
        for message in first:
            self.say(message)

    def say(self, message: Mapping[str, Any]) -> None:
        self._events.put_nowait(event({"jsonrpc": "2.0", **message}))

    def update(self, uri: str) -> None:
        self.say({"method": UPDATED, "params": {"uri": uri}})

    def end(self) -> None:
        self._events.put_nowait(None)

    def __aiter__(self) -> AsyncIterator[ServerEvent]:
        return self

    async def __anext__(self) -> ServerEvent:
        found = await self._events.get()
        if found is None:
            raise StopAsyncIteration
        return found

    async def aclose(self) -> None:
        self.closed = True

    def answer(self) -> RawAnswer:
        headers = (("content-type", "text/event-stream"),)
        return RawAnswer(status=200, headers=headers, session=None, body=self)


def tells(feed: Feed, *, session: str = "s1", yes: Answer | None = None) -> Answer:
    """Answer as a server of the older revisions, whose session has the stream `feed`."""

    def answered(permit: Permit) -> RawAnswer:
        message = permit.call.message
        match message.form:
            case Form.STREAM:
                return feed.answer()
            case Form.REQUEST if message.method == "initialize":
                greeting = {
                    "protocolVersion": "2025-11-25",
                    "capabilities": {"resources": {"subscribe": True}},
                    "serverInfo": {"name": "simulated", "version": "1"},
                }
                return result(permit, greeting, session=session)
            case Form.REQUEST:
                return result(permit, {}) if yes is None else yes(permit)
            case _:
                return whole(b"", status=202)

    return answered


def follows(feeds: list[Feed], agreed: Callable[[list[str]], list[str]] = list) -> Answer:
    """Answer as a server of the stateless revision; each stream that it opens is added to `feeds`."""

    def answered(permit: Permit) -> RawAnswer:
        message = permit.call.message
        if message.method != "subscriptions/listen":
            return result(permit, {"resultType": "complete"})
        uris = agreed(message.params["notifications"]["resourceSubscriptions"])
        said = {"notifications": {"resourceSubscriptions": uris}, "_meta": {TAG: message.id}}
        feeds.append(Feed({"method": ACKNOWLEDGED, "params": said}))
        return feeds[-1].answer()

    return answered
