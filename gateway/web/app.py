"""Every route of the public listener, in one list."""

from collections.abc import Callable

from starlette.responses import PlainTextResponse
from starlette.routing import Route, Router
from starlette.types import Receive, Scope, Send

from gateway.oauth.metadata import JWKS_PATH
from gateway.oauth.server import AuthorizationServer
from gateway.web.guard import Guard
from gateway.web.mcp import PREFIX, McpEndpoint
from gateway.web.oauth import oauth_routes

_DOCUMENTS = ("/.well-known/", JWKS_PATH)
"""What RFC 8414 and RFC 9728 mean to be public; a client in a browser starts there."""


class PublicApp:
    """MCP calls go straight to their endpoint; everything else is routed by Starlette."""

    def __init__(
        self,
        *,
        mcp: McpEndpoint,
        oauth: AuthorizationServer,
        guard: Guard,
        client_address: Callable[[Scope], str],
    ) -> None:
        self._mcp = mcp
        self._guard = guard
        self._documents = guard.for_public_documents()
        self._routed = Router(
            routes=[
                *oauth_routes(oauth, client_address),
                Route("/mcp", _no_aggregate, methods=["POST", "GET"]),
            ],
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
        public = scope["path"].startswith(_DOCUMENTS)
        refused = (self._documents if public else self._guard).check(scope["headers"])
        if refused is not None:
            await PlainTextResponse(refused.text + "\n", refused.status)(scope, receive, send)
            return
        await self._routed(scope, receive, send)


async def _no_aggregate(_: object) -> PlainTextResponse:
    return PlainTextResponse(
        "this gateway serves each server at /mcp/{server}; ask for one of them\n", 404
    )
