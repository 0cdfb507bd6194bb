"""Forwarding to an upstream that speaks Streamable HTTP: what was permitted is what is sent."""

import asyncio
from collections.abc import Awaitable, Callable
from functools import partial

from gateway.domain.calls import Call, Form, Permit, RawAnswer
from gateway.domain.identity import Principal
from gateway.domain.room import outlasting
from gateway.domain.tools import Profile
from gateway.errors import GatewayError
from gateway.http1 import beside
from gateway.ports.secrets import UpstreamCredentials
from gateway.upstream.exchange import Exchange, nothing
from gateway.upstream.headers import SESSION, Headers, forwarded
from gateway.upstream.personal import sent_in_name_of
from gateway.upstream.settings import UpstreamSettings
from gateway.upstream.stream import EventStream
from gateway.wire import jsontext

_VERBS = {
    Form.REQUEST: "POST",
    Form.NOTIFICATION: "POST",
    Form.RESPONSE: "POST",
    Form.STREAM: "GET",
    Form.END: "DELETE",
}

_LISTENS = "subscriptions/listen"
"""The one request whose stream waits for what the server says by itself (MCP 2026-07-28)."""


class HttpUpstream:
    """One upstream. Whatever a permitted message brings about, it brings about once."""

    def __init__(
        self, settings: UpstreamSettings, credentials: UpstreamCredentials | None = None
    ) -> None:
        """`credentials` are asked for each message of an upstream that is `per_person`.

        Raises:
            ValueError: They are missing there, or given where nobody would ask them.

        """
        if settings.per_person is (credentials is None):
            raise ValueError(f"{settings.server!r}: credentials are for what is per person")
        self._server = settings.server
        self._exchange = Exchange(settings)
        self._credentials = credentials
        self._connect_s = settings.timeouts.connect_s
        self._cancellations: set[asyncio.Task[None]] = set()

    async def forward(self, permit: Permit) -> RawAnswer:
        """Send the permit's message and return the answer's head, its body whole or streamed.

        When we give up waiting, an upstream of a legacy revision is told so; one of the stateless
        revision knows it from the closed connection (MCP 2026-07-28, cancellation).

        Raises:
            UpstreamFailed: No answer in time, or not one of MCP.
            CredentialRequired: The upstream wants a credential that we do not hold; `url` is where
                the person can get it, if they can.
            LimitExceeded: The answer is larger than the limits allow.
            GatewayError: It may not go by now: what the permit's last look says.

        """
        call = permit.call
        message = call.message
        headers = forwarded(call.headers)
        if permit.session is not None:
            headers.append((SESSION, permit.session))
        verb = _VERBS[message.form]
        is_told = _is_cancelled_by_message(call)
        who = permit.principal.person
        asks = message.form in (Form.REQUEST, Form.STREAM)
        send = partial(
            self._exchange.send,
            verb,
            body=message.body,
            listens=message.form is Form.STREAM or message.method == _LISTENS,
            abandoned=partial(self._cancel_soon, permit) if is_told else nothing,
            look=partial(permit.last_look, permit),
            who=who if asks else beside(who),
        )
        return await self._sent(permit.principal, headers, send, verb=verb)

    async def reject(self, permit: Permit, body: bytes) -> None:
        """Answer a request of the server's in the client's place, with a JSON-RPC error `body`.

        Raises:
            UpstreamFailed: It could not be delivered.

        """
        await self._post_beside(permit, body)

    async def cancel(self, permit: Permit) -> None:
        """Tell the upstream that nobody waits for this call any more; never raises.

        Sends nothing where closing the stream has said it already, where there is no request to
        cancel, and for `initialize`, which must not be cancelled (MCP 2025-11-25, cancellation).
        """
        if not _is_cancelled_by_message(permit.call):
            return
        body = jsontext.write_octets(
            {
                "jsonrpc": "2.0",
                "method": "notifications/cancelled",
                "params": {"requestId": permit.call.message.id, "reason": "nobody waits any more"},
            }
        )
        try:
            async with asyncio.timeout(self._connect_s):
                await self._post_beside(permit, body)
        except (GatewayError, TimeoutError):
            # An upstream that cannot be told finds out when it answers.
            return

    async def aclose(self) -> None:
        """Close every connection."""
        for task in self._cancellations:
            task.cancel()
        await asyncio.gather(*self._cancellations, return_exceptions=True)
        await self._exchange.aclose()

    async def _sent(
        self,
        principal: Principal,
        headers: Headers,
        send: Callable[..., Awaitable[RawAnswer]],
        *,
        verb: str = "POST",
    ) -> RawAnswer:
        if self._credentials is None:
            return await send(headers=headers)
        return await sent_in_name_of(
            principal, self._server, self._credentials, headers, send, verb=verb
        )

    async def _post_beside(self, permit: Permit, body: bytes) -> None:
        who = beside(permit.principal.person)
        send = partial(self._exchange.send, "POST", body=body, who=who)
        answer = await self._sent(permit.principal, _headers_beside(permit), send)
        if isinstance(answer.body, EventStream):
            await answer.body.aclose()

    def _cancel_soon(self, permit: Permit) -> None:
        # Beside the fault that the caller is about to get, not before it.
        task = asyncio.create_task(self.cancel(permit))
        outlasting(task)
        self._cancellations.add(task)
        task.add_done_callback(self._cancellations.discard)


def _is_cancelled_by_message(call: Call) -> bool:
    return (
        call.profile is Profile.LEGACY
        and call.message.form is Form.REQUEST
        and call.message.method != "initialize"
    )


def _headers_beside(permit: Permit) -> Headers:
    """Return the header fields of a message of our own that belongs to a client's session."""
    headers: Headers = [
        ("content-type", "application/json"),
        ("accept", "application/json, text/event-stream"),
    ]
    # The revision as the client states it: where it says nothing, the upstream assumes the same
    # for both of us.
    headers += [pair for pair in permit.call.headers if pair[0] == "mcp-protocol-version"]
    if permit.session is not None:
        headers.append((SESSION, permit.session))
    return headers
