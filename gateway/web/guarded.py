"""What stands before everything that a listener would say, its 404s and its mistakes included."""

from collections.abc import Callable

from starlette.types import ASGIApp, Receive, Scope, Send

from gateway.web.guard import Guard, plain


class Guarded:
    """An application behind its guard: no route, and nothing that is no route, is outside of it."""

    def __init__(
        self,
        app: ASGIApp,
        guard: Guard,
        *,
        refused_unread: Callable[[str, str], None],
        client_address: Callable[[Scope], str],
        open_to_pages: tuple[str, ...] = (),
    ) -> None:
        """Count by code and address what is refused.

        Below the paths that begin with one of `open_to_pages`, the application judges origins itself.
        """
        self._app = app
        self._guard = guard
        self._open = guard.for_any_origin()
        self._open_to_pages = open_to_pages
        self._refused_unread = refused_unread
        self._client_address = client_address

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Pass a request on that is meant for us; nothing but HTTP is spoken here."""
        if scope["type"] == "websocket":
            await send({"type": "websocket.close", "code": 1008})
        if scope["type"] != "http":
            return
        guard = self._open if scope["path"].startswith(self._open_to_pages) else self._guard
        refused = guard.refuses(scope)
        if refused is not None:
            self._refused_unread(refused.code, self._client_address(scope))
            await plain(send, refused)
            return
        await self._app(scope, receive, send)
