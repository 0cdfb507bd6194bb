"""HTTP with one upstream: a message is sent once, and what comes back is judged."""

import asyncio
import io
from collections.abc import Callable
from http import HTTPStatus
from typing import Final

import aiohttp
from yarl import URL

from gateway.domain.calls import RawAnswer
from gateway.errors import EgressRefused, UpstreamFailed
from gateway.upstream.egress import Judged
from gateway.upstream.faults import Challenged, broken_answer, no_answer, too_large, unusable
from gateway.upstream.headers import CONDITION, SESSION, Headers, returned, strong
from gateway.upstream.roomy import answering
from gateway.upstream.settings import UpstreamSettings
from gateway.upstream.stream import EventStream

_JSON: Final = "application/json"
_EVENTS: Final = "text/event-stream"

_KEEP_ALIVE_S: Final = 4.0
"""Below the five seconds after which uvicorn and Node close an unused connection: a call that is
sent into a closing one fails, and nothing is ever sent twice."""

_NOTHING_SENT: Final = aiohttp.ConnectionTimeoutError

_AT_ONCE_BYTES: Final = 1024 * 1024
"""Larger bodies are handed over in pieces, lest writing one holds everybody else up."""


def nothing() -> None:
    """For whoever need not be told."""


class Exchange:
    """A pool of connections to one upstream, opened with the first message.

    Redirects, cookies, proxies from the environment and compressed answers are not for a
    gateway: it would judge one thing and deliver another, or talk to somebody else.
    """

    def __init__(self, settings: UpstreamSettings) -> None:
        self._url = URL(settings.url)
        self._bounds = settings.bounds
        self._timeouts = settings.timeouts
        self._limits = settings.limits
        self._fixed = {"accept-encoding": "identity", "user-agent": "douane"}
        if settings.credential is not None:
            self._fixed[settings.credential.name] = settings.credential.value
        self._calls: aiohttp.ClientSession | None = None
        self._listeners: aiohttp.ClientSession | None = None

    async def send(
        self,
        verb: str,
        headers: Headers,
        body: bytes,
        *,
        listens: bool = False,
        abandoned: Callable[[], None] = nothing,
    ) -> RawAnswer:
        """Send one message, once, and return the answer: whole, or as an `EventStream`.

        Only a GET or DELETE into a kept connection that proves dead is sent a second time, into a
        new one; both are idempotent (RFC 9110 section 9.2.2).

        A stream that `listens` has no idle limit and a pool of its own, so that those who wait
        for news never hold up those who call. `abandoned` is called when we give up on an
        upstream that may still be working.

        Raises:
            UpstreamFailed: No answer in time, or none of MCP.
            Challenged: The upstream refused our credential, or the lack of one.
            LimitExceeded: The answer is larger than the limits allow.

        """
        response = await self._head(verb, headers, body, listens=listens, abandoned=abandoned)
        streams = False
        try:
            if _is_unchanged(response, headers):
                return _answer(response, b"")
            _refuse_what_is_not_ours_to_relay(response)
            media = response.headers.get("content-type", "").partition(";")[0].strip().lower()
            if media == _EVENTS and response.status == HTTPStatus.OK:
                streams = True
                return _answer(response, self._stream(response, abandoned))
            return await self._whole(response, media, abandoned)
        finally:
            if not streams:
                # After a whole body this is a no-op, and the connection is kept.
                response.close()

    async def aclose(self) -> None:
        """Close every connection; what still streams ends with a fault."""
        for session in (self._calls, self._listeners):
            if session is not None:
                await session.close()

    async def _head(
        self,
        verb: str,
        headers: Headers,
        body: bytes,
        *,
        listens: bool,
        abandoned: Callable[[], None],
    ) -> aiohttp.ClientResponse:
        timeouts = self._timeouts
        try:
            session = self._listening() if listens else self._calling()
            # The library's own clock for the answer starts when the request is written; this
            # one also ends an upstream that does not read it.
            async with asyncio.timeout(timeouts.connect_s + timeouts.idle_s):
                return await session.request(
                    verb,
                    self._url,
                    headers=headers,
                    data=io.BytesIO(body) if len(body) > _AT_ONCE_BYTES else body or None,
                    allow_redirects=False,
                )
        except EgressRefused as error:
            raise UpstreamFailed(
                "This server is where the gateway does not go.", detail=error.detail
            ) from error
        except (aiohttp.ClientError, TimeoutError) as error:
            if isinstance(error, TimeoutError) and not isinstance(error, _NOTHING_SENT):
                abandoned()
            raise no_answer(error, timeouts) from error

    def _stream(
        self, response: aiohttp.ClientResponse, abandoned: Callable[[], None]
    ) -> EventStream:
        return EventStream(
            response, timeouts=self._timeouts, limits=self._limits, abandoned=abandoned
        )

    async def _whole(
        self, response: aiohttp.ClientResponse, media: str, abandoned: Callable[[], None]
    ) -> RawAnswer:
        status = response.status
        if media != _JSON and status // 100 == 4:  # noqa: PLR2004 - RFC 9110 section 15.5
            # Clients act on the status alone (404: the session is over, 405: no stream here);
            # a page made for browsers is nothing for them.
            return _answer(response, b"", without="content-type")
        if media != _JSON and status >= HTTPStatus.INTERNAL_SERVER_ERROR:
            raise unusable(f"status {status}, media type {media[:40]!r}")
        body = await self._read(response, abandoned)
        if media == _JSON:
            return _answer(response, body)
        if body and response.method != "DELETE":
            raise unusable(f"status {status}, media type {media[:40]!r}")
        return _answer(response, b"", without="content-type")

    async def _read(self, response: aiohttp.ClientResponse, abandoned: Callable[[], None]) -> bytes:
        pieces = []
        size = 0
        most = self._limits.result_bytes
        declared = response.content_length
        try:
            async with answering(most if declared is None else min(most, declared)) as room:
                async for piece in response.content.iter_any():
                    size += len(piece)
                    if size > most:
                        raise too_large(f"more than {most} bytes")
                    await room.grown(size)
                    pieces.append(piece)
                room.settle(size)
        except (aiohttp.ClientError, TimeoutError) as error:
            if isinstance(error, TimeoutError):
                abandoned()
            raise broken_answer(error, self._timeouts) from error
        return pieces[0] if len(pieces) == 1 else b"".join(pieces)

    def _calling(self) -> aiohttp.ClientSession:
        if self._calls is None:
            self._calls = self._open(self._limits.connections, self._timeouts.idle_s)
        return self._calls

    def _listening(self) -> aiohttp.ClientSession:
        if self._listeners is None:
            self._listeners = self._open(self._limits.listeners, None)
        return self._listeners

    def _open(self, connections: int, idle_s: float | None) -> aiohttp.ClientSession:
        return aiohttp.ClientSession(
            connector=self._connector(connections),
            timeout=aiohttp.ClientTimeout(
                total=self._timeouts.hard_s,
                connect=self._timeouts.connect_s,
                sock_read=idle_s,
            ),
            cookie_jar=aiohttp.DummyCookieJar(),
            headers=self._fixed,
            skip_auto_headers=("accept", "content-type"),
            auto_decompress=False,
            trust_env=False,
        )

    def _connector(self, connections: int) -> aiohttp.TCPConnector:
        """Return what makes the connections, each to an address that is judged as it is made."""
        if self._bounds is None:
            return aiohttp.TCPConnector(limit=connections, keepalive_timeout=_KEEP_ALIVE_S)
        url = self._bounds.admit(str(self._url))
        return aiohttp.TCPConnector(
            limit=connections,
            keepalive_timeout=_KEEP_ALIVE_S,
            resolver=Judged(self._bounds, url),
            use_dns_cache=False,
        )


def _is_unchanged(response: aiohttp.ClientResponse, asked: Headers) -> bool:
    """Whether it says that its answer is the one that we told it we have."""
    conditional = any(name == CONDITION for name, _ in asked)
    return conditional and response.status == HTTPStatus.NOT_MODIFIED


def _refuse_what_is_not_ours_to_relay(response: aiohttp.ClientResponse) -> None:
    status = response.status
    challenge = ", ".join(response.headers.getall("www-authenticate", ()))
    if status == HTTPStatus.UNAUTHORIZED or (status == HTTPStatus.FORBIDDEN and challenge):
        # Relayed, it would make the client doubt the token that it has for the gateway.
        raise Challenged(status, challenge)
    if status // 100 not in {2, 4, 5}:  # RFC 9110 section 15
        raise unusable(f"status {status}")
    for coding in response.headers.getall("content-encoding", ()):
        if coding.strip().lower() != "identity":
            raise unusable(f"content encoding {coding[:40]!r}, though only identity was accepted")


def _answer(
    response: aiohttp.ClientResponse, body: bytes | EventStream, *, without: str = ""
) -> RawAnswer:
    headers = response.headers
    return RawAnswer(
        status=response.status,
        headers=tuple(pair for pair in returned(headers) if pair[0] != without),
        session=headers.get(SESSION),
        body=body,
        etag=strong(headers.get("etag")),
    )
