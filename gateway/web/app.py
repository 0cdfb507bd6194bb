"""Every route of the public listener, in one list."""

import asyncio
from collections.abc import Callable, Iterable
from http import HTTPStatus
from typing import Protocol

from starlette.routing import Route, Router
from starlette.types import Message, Receive, Scope, Send

from gateway.domain.calls import AGGREGATE
from gateway.domain.throttle import Throttle
from gateway.web.call_metrics import CallMetrics
from gateway.web.guard import UNREAD, Guard, Guarded, Refused, plain, throttled
from gateway.web.mcp import PREFIX, McpEndpoint

_DESK = "/desk/"
_FORMS = (
    "/sign-in",
    "/setup",
    "/consent",
    "/device",
    "/account",
    "/sign-out",
    "/connect/",
    "/approve/",
    _DESK,
)
"""Beginnings of our pages' paths. They judge the origin of a form themselves: on a page that gives
no referrer, browsers say `Origin: null` even to us (Fetch section 3.2)."""

_CLIENT_ERRORS = range(400, 500)
_NOWHERE = frozenset({HTTPStatus.NOT_FOUND, HTTPStatus.METHOD_NOT_ALLOWED})
"""Clients look for much that is not here, and none of it is recorded."""


class Routed:
    """Pages and endpoints by their routes, for whoever is not refused all the time."""

    def __init__(
        self,
        routes: Iterable[Route],
        *,
        metrics: CallMetrics,
        client_address: Callable[[Scope], str],
        most_failures: int = 300,
    ) -> None:
        """Let one address have so many refused requests in a minute: most are a record each, and
        nobody who makes them has to be anybody.
        """
        self._metrics = metrics
        self._client_address = client_address
        self._failures = Throttle(allowed=most_failures, window_s=60.0)
        self._routed = Router(
            routes=list(routes),
            # A redirect would be built from the Host header.
            redirect_slashes=False,
            default=_nowhere,
        )

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer one request, and note if it was refused."""
        address = self._client_address(scope)
        refused = throttled(self._failures, address)
        if refused is not None:
            self._metrics.refused_unread(refused.code, address)
            await plain(send, refused)
            return

        async def counted(message: Message) -> None:
            if message["type"] == "http.response.start":
                if _is_refusal(message["status"]):
                    self._failures.note(address, asyncio.get_running_loop().time())
                if message["status"] == HTTPStatus.METHOD_NOT_ALLOWED:
                    scope[UNREAD] = "method"
            await send(message)

        await self._routed(scope, receive, counted)
        if UNREAD in scope:
            self._metrics.refused_unread(scope[UNREAD], address)


def desk_app(
    routes: Iterable[Route],
    guard: Guard,
    *,
    metrics: CallMetrics,
    client_address: Callable[[Scope], str],
) -> Guarded:
    """Return the application of the desk's own listener, behind `guard`."""
    return Guarded(
        Routed(routes, metrics=metrics, client_address=client_address),
        guard,
        refused_unread=metrics.refused_unread,
        client_address=client_address,
        open_to_pages=(_DESK,),
    )


class Endpoint(Protocol):
    """Answers at paths of its own, and judges by itself who may ask."""

    def serves(self, path: str) -> bool:
        """Whether `path` is one of them."""
        ...

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer one request."""
        ...


class PublicApp(Guarded):
    """Behind its guard, MCP calls go straight to their endpoint; everything else is routed by Starlette."""

    def __init__(
        self,
        *,
        mcp: McpEndpoint,
        beside: Iterable[Endpoint] = (),
        sign_in: Iterable[Route],
        open_to_pages: Iterable[str] = (),
        guard: Guard,
        metrics: CallMetrics,
        client_address: Callable[[Scope], str],
        most_failures: int = 300,
    ) -> None:
        """Serve `mcp`, the endpoints `beside` it, and `sign_in`: routes of documents and pages.

        Paths that begin as one of `open_to_pages` are for pages of every origin. `most_failures` is as
        for `Routed`.
        """
        super().__init__(
            self._serve,
            guard,
            refused_unread=metrics.refused_unread,
            client_address=client_address,
            open_to_pages=(*open_to_pages, *_FORMS),
        )
        self._mcp = mcp
        self._beside = tuple(beside)
        self._routed = Routed(
            sign_in, metrics=metrics, client_address=client_address, most_failures=most_failures
        )

    def end_listening(self) -> None:
        """End the streams that wait for what servers say by themselves."""
        self._mcp.end_listening()

    async def _serve(self, scope: Scope, receive: Receive, send: Send) -> None:
        path = scope["path"]
        if path == AGGREGATE or path.startswith(PREFIX):
            await self._mcp(scope, receive, send)
            return
        for endpoint in self._beside:
            if endpoint.serves(path):
                await endpoint(scope, receive, send)
                return
        await self._routed(scope, receive, send)


async def _nowhere(scope: Scope, receive: Receive, send: Send) -> None:
    """Answer whoever looks for what is not here."""
    del scope, receive
    await plain(send, Refused(status=404, code="no_endpoint", text="there is no such path"))


def _is_refusal(status: int) -> bool:
    return status in _CLIENT_ERRORS and status not in _NOWHERE
