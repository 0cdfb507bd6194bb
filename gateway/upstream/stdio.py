"""Forwarding to a local server: each session has a process of its own, and nobody else's.

What the stateless revision asks goes to a process of the principal's, which its requests share as
far as their ids differ. A process that has ended is not missed there; in the older revisions its
session is over, and the client begins a new one.
"""

import asyncio
from dataclasses import replace
from http import HTTPStatus

from gateway.domain.calls import Form, Message, Permit, RawAnswer
from gateway.domain.identity import Principal
from gateway.domain.tools import Profile
from gateway.errors import ProtocolError
from gateway.upstream.channel import Asked, Channel
from gateway.upstream.local import Channels, status
from gateway.upstream.replies import read_in_turn
from gateway.upstream.settings import LocalSettings


class StdioUpstream:
    """One local server. Whatever a permitted message brings about, it brings about once."""

    def __init__(self, settings: LocalSettings) -> None:
        self._limits = settings.limits
        self._channels = Channels(settings)
        self._choosing = asyncio.Lock()

    async def forward(self, permit: Permit) -> RawAnswer:
        """Send the permit's message and return the answer, its body whole or streamed.

        Raises:
            UpstreamFailed: No answer in time, not one of MCP, or no process to ask.
            LimitExceeded: The answer is larger than the limits allow.
            GatewayError: It may not go by now: what the permit's last look says.

        """
        owner = permit.principal
        message = permit.call.message
        if permit.call.profile is Profile.MODERN:
            return await self._stateless(permit)
        if permit.session is None:
            if message.form is Form.REQUEST and message.method == "initialize":
                return await self._begin(permit)
            return status(HTTPStatus.BAD_REQUEST)
        channel = self._channels.find(permit.session, owner.key)
        if channel is None:
            return status(HTTPStatus.NOT_FOUND)
        return await self._in_session(permit.session, channel, message)

    async def reject(self, permit: Permit, body: bytes) -> None:
        """Answer a request of the server's in the client's place, with a JSON-RPC error `body`.

        Raises:
            UpstreamFailed: It could not be delivered.

        """
        channel = self._channels.find(permit.session, permit.principal.key)
        if channel is not None:
            await channel.tell(body)

    async def aclose(self) -> None:
        """End every process; calls under way fail."""
        await self._channels.aclose()

    async def _begin(self, permit: Permit) -> RawAnswer:
        """Begin a session, if the server takes it up."""
        owner = permit.principal
        session, channel = await self._channels.open(
            owner.key, stateless=False, person=owner.person
        )
        begun = False
        try:
            permit.last_look(permit)  # a process takes its time to start
            answer = await channel.ask(_asked(permit.call.message))
            begun = not isinstance(answer.body, bytes) or not await self._is_error(
                owner, answer.body
            )
            return replace(answer, session=session) if begun else answer
        finally:
            if not begun:
                await self._channels.end(session)

    async def _in_session(self, session: str, channel: Channel, message: Message) -> RawAnswer:
        match message.form:
            case Form.REQUEST:
                return await channel.ask(_asked(message))
            case Form.NOTIFICATION | Form.RESPONSE:
                await channel.tell(message.body)
                return status(HTTPStatus.ACCEPTED)
            case Form.STREAM:
                return channel.listen() or status(HTTPStatus.CONFLICT)
            case Form.END:
                await self._channels.end(session)
                return status(HTTPStatus.OK)

    async def _stateless(self, permit: Permit) -> RawAnswer:
        owner, message = permit.principal, permit.call.message
        if message.form is Form.REQUEST:
            asked = _asked(message)
            channel = await self._free_for(owner, asked)
            permit.last_look(permit)
            return await channel.ask(asked)
        cancelled = message.params.get("requestId")
        for channel in self._shared(owner):
            if cancelled is None or channel.waits_for(cancelled):
                await channel.tell(message.body)
                break
        return status(HTTPStatus.ACCEPTED)

    async def _free_for(self, owner: Principal, asked: Asked) -> Channel:
        """Return a process of `owner`'s that has no other request of this id under way."""
        async with self._choosing:
            for channel in self._shared(owner):
                if channel.is_free_for(asked):
                    return channel
            _, channel = await self._channels.open(owner.key, stateless=True, person=owner.person)
            return channel

    def _shared(self, owner: Principal) -> tuple[Channel, ...]:
        return tuple(one for one in self._channels.of(owner.key) if one.stateless)

    async def _is_error(self, owner: Principal, body: bytes) -> bool:
        return (await read_in_turn(owner.person, body, self._limits.wire)).error is not None


def _asked(message: Message) -> Asked:
    if message.id is None:
        raise ProtocolError("a request has an id")
    return Asked.of(message.body, message.id, message.method, message.params)
