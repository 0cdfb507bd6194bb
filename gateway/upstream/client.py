"""The gateway's own MCP client, for both families of revisions: raw JSON in, raw JSON out."""

import asyncio
from collections.abc import AsyncIterator, Collection, Iterable, Mapping
from contextlib import asynccontextmanager
from http import HTTPStatus
from typing import Any, Final, Protocol

import orjson

from gateway.domain._value import value
from gateway.domain.calls import RawAnswer
from gateway.domain.tools import Profile, UpstreamId
from gateway.errors import GatewayError
from gateway.upstream.faults import unusable
from gateway.upstream.headers import CONDITION, SESSION, Headers
from gateway.upstream.replies import ErrorAnswer, Replied, discard, read_reply, reply_in
from gateway.wire.extensions import UI
from gateway.wire.greeting import server_item
from gateway.wire.jsontext import WireLimits

MODERN_REVISION: Final = "2026-07-28"
LEGACY_REVISIONS: Final = ("2025-11-25", "2025-06-18", "2025-03-26")
"""The first is the one that is proposed."""

_SELF: Final = {"name": "douane", "version": "1"}

_ALL_CAPABILITIES: Final[Mapping[str, Any]] = {
    "elicitation": {"form": {}, "url": {}},
    "roots": {"listChanged": True},
    "sampling": {"context": {}, "tools": {}},
}
"""What a server shows only to clients that can do something is to be seen too."""

_SETTINGS: Final[Mapping[str, Any]] = {UI: {"mimeTypes": ["text/html;profile=mcp-app"]}}
"""What a server wants to read beside an extension's name to take it for declared."""

_META: Final = "io.modelcontextprotocol/"

_LISTEN: Final = "subscriptions/listen"
_ALL_LISTS: Final = {
    "toolsListChanged": True,
    "promptsListChanged": True,
    "resourcesListChanged": True,
}

_END_S: Final = 2.0
"""How long leaving may take: longer than any server needs, shorter than a shutdown may last."""


class Transport(Protocol):
    """What carries messages to one upstream: HTTP, or the pipes of a process."""

    async def send(
        self, verb: str, headers: Headers, body: bytes, *, listens: bool = False
    ) -> RawAnswer:
        """Send one message, once, and return the answer: whole, or as events.

        Raises:
            UpstreamFailed: No answer in time, or none of MCP.
            CredentialRequired: The upstream wants a credential that we do not hold.
            LimitExceeded: The answer is larger than the limits allow.

        """
        ...

    async def aclose(self) -> None:
        """Close every connection; what still streams ends with a fault."""
        ...


class NotSpoken(Exception):
    """The upstream does not speak this family of revisions."""


@value
class ServerInfo:
    """What an upstream says of itself; nothing to rely on."""

    name: str
    version: str
    capabilities: Mapping[str, Any]
    item: Mapping[str, Any]
    """What of it a person approves."""


class Conversation:
    """One upstream, asked in one family of revisions. Begun by `converse`."""

    def __init__(
        self,
        server: UpstreamId,
        exchange: Transport,
        profile: Profile,
        limits: WireLimits,
        capabilities: Mapping[str, Any],
    ) -> None:
        self.profile = profile
        self._server = server
        self.received_bytes = 0
        """Of all results so far."""
        self._exchange = exchange
        self._limits = limits
        self._revision = MODERN_REVISION if profile is Profile.MODERN else None
        self._capabilities = capabilities
        self._session: str | None = None
        self._asked = 0

    async def begin(self) -> ServerInfo:
        """Open the conversation and return what the upstream says of itself.

        Raises:
            NotSpoken: The upstream knows no such opening.
            UpstreamFailed, CredentialRequired, LimitExceeded: As `request`.

        """
        try:
            if self.profile is Profile.MODERN:
                return await self._discover()
            return await self._initialize()
        except ErrorAnswer as error:
            if error.means_unknown:
                raise NotSpoken(error.detail) from error
            raise

    async def request(
        self, method: str, params: Mapping[str, Any] | None = None
    ) -> Mapping[str, Any]:
        """Ask, and return the result as raw JSON.

        Raises:
            ErrorAnswer: The answer is an error.
            UpstreamFailed: There is no answer, or none of MCP.
            CredentialRequired: The upstream wants a credential that we do not hold.
            LimitExceeded: The answer is larger than the limits allow.

        """
        return (await self.ask(method, params)).result or {}

    async def ask(
        self,
        method: str,
        params: Mapping[str, Any] | None = None,
        *,
        known: str = "",
        etag: str | None = None,
    ) -> Replied:
        """Ask, and return the reply; as `request`.

        One of the `known` print is not read. With the `etag` of what is known the upstream need not
        even send it again.
        """
        rpc_id = self._next_id()
        members = {"id": rpc_id, "params": self._stamped(params or {})}
        condition = [] if etag is None else [(CONDITION, etag)]
        answer = await self._post(method, members, more=condition)
        self._session = self._session or answer.session
        replied = await reply_in(self._server, answer, method, rpc_id, self._limits, known=known)
        self.received_bytes += replied.size
        return replied

    async def read(self, replied: Replied, method: str) -> Mapping[str, Any]:
        """Return the result of a reply, also of one that was known."""
        if replied.result is not None:
            return replied.result
        return await read_reply(self._server, replied, method, self._limits)

    async def listen(self) -> RawAnswer:
        """Open the stream on which the server says what changes; its body is not awaited.

        Raises:
            UpstreamFailed, CredentialRequired: As `Transport.send`.

        """
        if self.profile is Profile.LEGACY:
            return await self._exchange.send("GET", self._headers(), b"", listens=True)
        params = self._stamped({"notifications": _ALL_LISTS})
        return await self._post(_LISTEN, {"id": self._next_id(), "params": params}, listens=True)

    async def end(self) -> None:
        """End the session, if there is one; never raises."""
        if self._session is None:
            return
        try:
            async with asyncio.timeout(_END_S):
                await discard(await self._exchange.send("DELETE", self._headers(), b""))
        except (GatewayError, TimeoutError):
            # A server that does not take leave forgets sessions by itself.
            return

    async def _discover(self) -> ServerInfo:
        result = await self.request("server/discover")
        supported = result.get("supportedVersions")
        if not isinstance(supported, list) or MODERN_REVISION not in supported:
            raise NotSpoken(f"server/discover: it does not offer {MODERN_REVISION}")
        return _server_info(self.profile, result)

    async def _initialize(self) -> ServerInfo:
        result = await self.request(
            "initialize",
            {
                "protocolVersion": LEGACY_REVISIONS[0],
                "capabilities": self._capabilities,
                "clientInfo": _SELF,
            },
        )
        revision = result.get("protocolVersion")
        if revision not in LEGACY_REVISIONS:
            raise unusable("initialize: it speaks a revision that the gateway does not know")
        self._revision = revision
        method = "notifications/initialized"
        answer = await self._post(method, {})
        await discard(answer)
        if answer.status >= HTTPStatus.BAD_REQUEST:
            raise unusable(f"{method}: status {answer.status}")
        return _server_info(self.profile, result)

    def _next_id(self) -> str:
        # A string of our own: a server that counts cannot meet another request's id by chance.
        self._asked += 1
        return f"douane-{self._asked}"

    def _stamped(self, params: Mapping[str, Any]) -> Mapping[str, Any]:
        if self.profile is Profile.LEGACY:
            return params
        meta = {
            f"{_META}protocolVersion": MODERN_REVISION,
            f"{_META}clientCapabilities": self._capabilities,
            f"{_META}clientInfo": _SELF,
        }
        return {**params, "_meta": meta}

    async def _post(
        self,
        method: str,
        members: Mapping[str, Any],
        *,
        listens: bool = False,
        more: Iterable[tuple[str, str]] = (),
    ) -> RawAnswer:
        headers = [*self._headers(), *more]
        if self.profile is Profile.MODERN:
            headers.append(("mcp-method", method))
            if (name := members.get("params", {}).get("uri")) is not None:
                headers.append(("mcp-name", name))  # a resource's; the gateway reads nothing else
        body = orjson.dumps({"jsonrpc": "2.0", "method": method, **members})
        return await self._exchange.send("POST", headers, body, listens=listens)

    def _headers(self) -> Headers:
        headers = [
            ("content-type", "application/json"),
            ("accept", "application/json, text/event-stream"),
        ]
        if self._revision is not None:
            headers.append(("mcp-protocol-version", self._revision))
        if self._session is not None:
            headers.append((SESSION, self._session))
        return headers


def all_capabilities(extensions: Collection[str]) -> Mapping[str, Any]:
    """Return what a client declares that can do everything, with `extensions`."""
    if not extensions:
        return _ALL_CAPABILITIES
    named = {name: _SETTINGS.get(name, {}) for name in sorted(extensions)}
    return {**_ALL_CAPABILITIES, "extensions": named}


@asynccontextmanager
async def converse(
    server: UpstreamId,
    exchange: Transport,
    profile: Profile,
    limits: WireLimits,
    *,
    capabilities: Mapping[str, Any] = _ALL_CAPABILITIES,
) -> AsyncIterator[tuple[Conversation, ServerInfo]]:
    """Begin a conversation with `server` as a client with `capabilities`, and end it whatever happens.

    Raises:
        NotSpoken: The upstream does not speak this family.
        UpstreamFailed, CredentialRequired, LimitExceeded: As `Conversation.request`.

    """
    conversation = Conversation(server, exchange, profile, limits, capabilities)
    try:
        yield conversation, await conversation.begin()
    finally:
        await conversation.end()


def _server_info(profile: Profile, result: Mapping[str, Any]) -> ServerInfo:
    item, version = server_item(profile, result)
    return ServerInfo(
        name=item["name"],
        version=version,
        capabilities=item["capabilities"],
        item=item,
    )
