"""What moves by itself at the desk: numbers alone, for the browser's script, until nobody may see them."""

from collections.abc import AsyncIterator, Mapping

import orjson
from starlette.responses import Response, StreamingResponse
from starlette.routing import Route
from starlette.types import Receive, Scope, Send

from gateway.errors import GatewayError
from gateway.web.desk.frame import Frame, Guest
from gateway.web.desk.streams import Streams

_EVERY_S = 2.0
_ALIVE_EVERY = 7
"""Looks without news after which a line says that the stream is alive: 14 seconds."""
_HEADERS = {"cache-control": "no-store", "x-content-type-options": "nosniff"}


class LivePages:
    def __init__(self, frame: Frame) -> None:
        self._frame = frame
        self._streams = frame.streams

    @property
    def routes(self) -> list[Route]:
        return [self._frame.route("/live", get=self._live)]

    async def _live(self, guest: Guest) -> Response:
        """Tell the numbers once, or again and again as they change; where too many listen, not at all."""
        if "once" in guest.query:
            counts = await self._counts(guest)
            return Response(orjson.dumps(counts), headers=_HEADERS, media_type="application/json")
        if guest.visit.request.method == "HEAD":
            return _nothing()
        return _Listening(self._streams, guest.person.name, self._events(guest))

    async def _counts(self, guest: Guest) -> Mapping[str, object]:
        counts: Mapping[str, object] = await self._frame.ask(guest, "waiting.counts")
        return counts

    async def _events(self, guest: Guest) -> AsyncIterator[bytes]:
        told: Mapping[str, object] | None = None
        quiet = 0
        while (now := await self._now(guest)) is not None:
            if now != told:
                told, quiet = now, 0
                yield b"data: " + orjson.dumps(now) + b"\n\n"
            elif quiet % _ALIVE_EVERY == 0:
                yield b":\n\n"
            quiet += 1
            if await self._streams.over(_EVERY_S):
                return

    async def _now(self, guest: Guest) -> Mapping[str, object] | None:
        """Return the numbers, for whoever may still see them."""
        try:
            again = await self._frame.guest(guest.visit)
            return None if again is None else await self._counts(again)
        except GatewayError:
            return None


class _Listening(StreamingResponse):
    """A stream that has its place as long as it is sent; without one it says nothing."""

    def __init__(self, streams: Streams, person: str, events: AsyncIterator[bytes]) -> None:
        super().__init__(events, headers=_HEADERS, media_type="text/event-stream")
        self._streams = streams
        self._person = person

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        with self._streams.one(self._person) as fits:
            answer = super().__call__ if fits else _nothing()
            await answer(scope, receive, send)


def _nothing() -> Response:
    return Response(status_code=204, headers=_HEADERS)
