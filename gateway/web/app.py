"""Every route of the public listener, in one list."""

from collections.abc import Iterable

from starlette.responses import PlainTextResponse
from starlette.routing import Route, Router
from starlette.types import Receive, Scope, Send

from gateway.web.guard import Guard
from gateway.web.mcp import PREFIX, McpEndpoint
from gateway.web.oauth import FROM_ANYWHERE

_FORMS = ("/sign-in", "/setup", "/consent", "/device", "/account", "/sign-out", "/connect/")
"""Beginnings of our pages' paths. They judge the origin of a form themselves: on a page that gives
no referrer, browsers say `Origin: null` even to us (Fetch section 3.2)."""


class PublicApp:
    """MCP calls go straight to their endpoint; everything else is routed by Starlette."""

    def __init__(
        self,
        *,
        mcp: McpEndpoint,
        sign_in: Iterable[Route],
        guard: Guard,
    ) -> None:
        """Serve `sign_in`, the routes of documents, endpoints and pages, beside `mcp`."""
        self._mcp = mcp
        self._guard = guard
        self._open = guard.for_any_origin()
        self._routed = Router(
            routes=[*sign_in, Route("/mcp", _no_aggregate, methods=["POST", "GET"])],
            # A redirect would be built from the Host header.
            redirect_slashes=False,
        )

    def end_listening(self) -> None:
        """End the streams that wait for what servers say by themselves."""
        self._mcp.end_listening()

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] == "http" and scope["path"].startswith(PREFIX):
            await self._mcp(scope, receive, send)
            return
        is_open = scope["path"].startswith((*FROM_ANYWHERE, *_FORMS))
        refused = (self._open if is_open else self._guard).check(scope["headers"])
        if refused is not None:
            await PlainTextResponse(refused.text + "\n", refused.status)(scope, receive, send)
            return
        await self._routed(scope, receive, send)


async def _no_aggregate(_: object) -> PlainTextResponse:
    return PlainTextResponse(
        "this gateway serves each server at /mcp/{server}; ask for one of them\n", 404
    )
