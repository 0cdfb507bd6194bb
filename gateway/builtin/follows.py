"""The way to servers for whoever follows their resources, one call for each."""

import asyncio
from collections.abc import AsyncGenerator, Awaitable, Callable, Sequence
from contextlib import aclosing
from dataclasses import replace
from typing import Final, Protocol

from gateway.builtin.homeward import Homeward
from gateway.builtin.notices import Notices
from gateway.builtin.offers import Offers
from gateway.domain.calls import Call, CallId, Form, Message, Reply
from gateway.domain.tools import Profile, Target
from gateway.wire.extensions import with_params
from gateway.wire.notices import listening
from gateway.wire.operations import (
    LISTEN,
    SUBSCRIBE,
    UNSUBSCRIBE,
    is_descriptions,
    subscribed,
)

METHODS: Final = frozenset({SUBSCRIBE, UNSUBSCRIBE, LISTEN})
_PATIENCE_S: Final = 10.0
"""How long one server may take; a client that listens hears of the others nevertheless."""
_AT_ONCE: Final = 8
"""Of one client's resources that are asked for together: each is a call, and stands in the log."""
_LEFT_OUT: Final = frozenset({"upstream_failed", "credential_required", "limit_exceeded"})
"""Why a resource is only missing in what a stream will tell; anything else refuses the stream."""


class Directed(Protocol):
    """A call in the words of the server that it is for, and the way back."""

    @property
    def call(self) -> Call: ...

    @property
    def home(self) -> Homeward: ...


class Follows:
    """Makes of one message here a call at each server that it concerns. Decides nothing."""

    def __init__(
        self,
        *,
        carry: Callable[[Call], Awaitable[Reply]],
        towards: Callable[[Call, Target, Message], Awaitable[Directed]],
        offers: Offers,
        notices: Notices,
        new_id: Callable[[], str],
    ) -> None:
        self._carry = carry
        self._towards = towards
        self._offers = offers
        self._notices = notices
        self._new_id = new_id

    async def handle(self, call: Call) -> Reply:
        """Carry what begins or ends to follow resources to its reply."""
        if call.message.method == LISTEN:
            return await self._listen(call)
        target = self._offers.find_resource(call.message.params["uri"])
        return await (self._carry(call) if target is None else self._at(call, target))

    async def stream(self, call: Call) -> Reply:
        """Open a session's stream; what the session followed before a restart it follows again."""
        try:
            reply = await self._carry(call)
        finally:  # also if its client has gone meanwhile: nobody else asks for them
            uris = self._notices.missing(call.id)
        if isinstance(reply.body, bytes) or not uris:
            return reply
        return replace(reply, body=self._following(call, reply.body, uris))

    async def _listen(self, call: Call) -> Reply:
        uris = subscribed(call.message.params)
        own = [uri for uri in uris if is_descriptions(uri)]
        targets = [self._offers.find_resource(uri) for uri in uris if uri not in own]
        if None in targets:
            return await self._carry(call)  # there is no such resource, and it is told so
        lists = with_params(call.message, listening(call.message.params, None, own))
        listens = False
        try:
            for reply in await self._begun(call, targets):
                if _refuses(reply):
                    return reply
            reply = await self._carry(replace(call, message=lists) if uris else call)
            listens = reply.code is None
            return reply
        finally:
            if not listens and uris:
                self._notices.abandon(call.id)

    async def _begun(self, call: Call, targets: Sequence[Target | None]) -> Sequence[Reply]:
        """Return how servers answered; nothing more is asked for once one answer refuses the stream.

        Nor of a server that took too long: each of its resources would take as long.
        """
        waiting = [target for target in targets if target is not None]
        replies: list[Reply] = []
        while waiting and not any(map(_refuses, replies)):
            asked, waiting = waiting[:_AT_ONCE], waiting[_AT_ONCE:]
            calls = [replace(call, id=CallId(self._new_id()), parent=call.id) for _ in asked]
            found = await asyncio.gather(*map(self._in_time, calls, asked))
            replies += [reply for reply in found if reply is not None]
            late = {one.server for one, reply in zip(asked, found, strict=True) if reply is None}
            waiting = [target for target in waiting if target.server not in late]
        return replies

    async def _in_time(self, call: Call, target: Target) -> Reply | None:
        try:
            async with asyncio.timeout(_PATIENCE_S):
                return await self._at(call, target)
        except TimeoutError:
            return None

    async def _at(self, call: Call, target: Target) -> Reply:
        """Carry a subscription, or the end of one, to the server of `target`."""
        modern = self._offers.era(target.server, call.profile) is Profile.MODERN
        message = call.message
        ends = message.method == UNSUBSCRIBE
        meta = {name: part for name, part in message.params.items() if name == "_meta"}
        if modern:
            message = replace(message, method=LISTEN)
            params = listening(meta, [target.name])
        else:
            message = replace(message, method=UNSUBSCRIBE if ends else SUBSCRIBE)
            params = {**meta, "uri": target.name}
        directed = await self._towards(call, target, with_params(message, params))
        inner = replace(directed.call, withdraws=ends and modern)
        return await directed.home.reply(await self._carry(inner))

    async def _following(
        self, call: Call, parts: AsyncGenerator[bytes, None], uris: Sequence[str]
    ) -> AsyncGenerator[bytes, None]:
        async with aclosing(parts):
            yield await anext(parts)
            again = asyncio.create_task(self._again(call, uris))
            try:
                async for part in parts:
                    yield part
            finally:
                again.cancel()
                await asyncio.gather(again, return_exceptions=True)

    async def _again(self, call: Call, uris: Sequence[str]) -> None:
        """Subscribe to what a session followed; what is refused by now is not followed any more."""
        asks = Message(form=Form.REQUEST, method=SUBSCRIBE, id="again", params={}, body=b"")
        for uri in uris:
            target = self._offers.find_resource(uri)
            if target is not None:
                id_ = CallId(self._new_id())
                await self._in_time(replace(call, id=id_, parent=call.id, message=asks), target)


def _refuses(reply: Reply) -> bool:
    return reply.code is not None and reply.code not in _LEFT_OUT
