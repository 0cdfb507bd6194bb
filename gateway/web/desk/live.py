"""What moves by itself at the desk: numbers alone, for the browser's script, until nobody may see them."""

from collections.abc import AsyncIterator, Mapping

import orjson
from starlette.responses import Response, StreamingResponse
from starlette.routing import Route

from gateway.errors import GatewayError
from gateway.web.desk.frame import Frame, Guest

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
        if guest.visit.request.method == "HEAD" or self._streams.full(guest.person.name):
            return Response(status_code=204, headers=_HEADERS)
        return StreamingResponse(
            self._events(guest), headers=_HEADERS, media_type="text/event-stream"
        )

    async def _counts(self, guest: Guest) -> Mapping[str, object]:
        counts: Mapping[str, object] = await self._frame.ask(guest, "waiting.counts")
        return counts

    async def _events(self, guest: Guest) -> AsyncIterator[bytes]:
        told: Mapping[str, object] | None = None
        quiet = 0
        with self._streams.one(guest.person.name):
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
