"""HTTP with one upstream: a message is sent once, and what comes back is judged."""

from collections.abc import Callable, Sequence
from http import HTTPStatus
from ipaddress import ip_address
from typing import Final

from yarl import URL

from gateway.domain.calls import RawAnswer
from gateway.domain.room import FREE
from gateway.errors import EgressRefused, UpstreamFailed, UpstreamResting
from gateway.http1 import (
    LATE,
    ConnectFailed,
    Connection,
    Head,
    HttpFault,
    NoPlace,
    Origin,
    Pool,
    Response,
    Waits,
    common_head,
    dial,
    request,
)
from gateway.upstream.addresses import IPAddress
from gateway.upstream.faults import Challenged, broken_answer, no_answer, too_large, unusable
from gateway.upstream.headers import CONDITION, SESSION, Headers, returned, strong
from gateway.upstream.resolver import SystemResolver
from gateway.upstream.roomy import answering
from gateway.upstream.settings import UpstreamSettings
from gateway.upstream.stream import EventStream

_JSON: Final = "application/json"
_EVENTS: Final = "text/event-stream"

_KEEP_ALIVE_S: Final = 4.0
"""Below the five seconds after which uvicorn and Node close an unused connection: a call that is
sent into a closing one fails, and nothing is ever sent twice."""


def nothing() -> None:
    """For whoever need not be told."""


class Exchange:
    """A pool of connections to one upstream, opened with the first message.

    Redirects, cookies, proxies from the environment and compressed answers are not for a
    gateway: it would judge one thing and deliver another, or talk to somebody else.
    """

    def __init__(self, settings: UpstreamSettings) -> None:
        url = URL(settings.url)
        self._url = settings.url
        self._origin = Origin(
            host=url.raw_host or "", port=url.port or 0, is_tls=url.scheme == "https"
        )
        self._bounds = settings.bounds
        self._resolve = SystemResolver() if self._bounds is None else self._bounds.resolve
        self._timeouts = settings.timeouts
        self._limits = settings.limits
        fixed = [("accept-encoding", "identity"), ("user-agent", "douane")]
        if settings.credential is not None:
            fixed.append((settings.credential.name, settings.credential.value))
        self._common = common_head(url.raw_path_qs, _authority(url), fixed)
        self._calls = self._pool(settings.limits.connections, settings.timeouts.idle_s)
        self._listeners = self._pool(settings.limits.listeners, None)

    async def send(
        self,
        verb: str,
        headers: Headers,
        body: bytes,
        *,
        listens: bool = False,
        abandoned: Callable[[], None] = nothing,
        look: Callable[[], None] = nothing,
        who: str = "",
    ) -> RawAnswer:
        """Send one message, once, and return the answer: whole, or as an `EventStream`.

        Only a GET or DELETE into a kept connection that proves dead is sent a second time, into a
        new one; both are idempotent (RFC 9110 section 9.2.2).

        A stream that `listens` has no idle limit and a pool of its own, so that those who wait
        for news never hold up those who call. `abandoned` is called when we give up on an
        upstream that may still be working. `look` is called when there is a connection: what it raises
        is raised, and nothing is sent. `who` asks: a person, or nobody for the gateway itself.

        Raises:
            UpstreamResting: Nothing was sent: there was no free connection in time.
            UpstreamFailed: No answer in time, or none of MCP.
            Challenged: The upstream refused our credential, or the lack of one.
            LimitExceeded: The answer is larger than the limits allow.

        """
        pool = self._listeners if listens else self._calls
        asked = request(verb, self._common, headers, body)
        try:
            response = await pool.send(verb, asked, look=look, who=who)
        except (EgressRefused, HttpFault) as error:
            raise self._unanswered(error, abandoned) from error
        head, streams = response.head, False
        try:
            if head.status == HTTPStatus.NOT_MODIFIED and _is_conditional(headers):
                return _answer(head, b"")
            _refuse_what_is_not_ours_to_relay(head)
            media = (head.fields.first.get("content-type") or "").partition(";")[0].strip().lower()
            if media == _EVENTS and head.status == HTTPStatus.OK:
                streams = True
                return _answer(head, self._stream(response, abandoned))
            return await self._whole(response, head, verb, media, abandoned)
        finally:
            if not streams:
                # After a whole body this is a no-op, and the connection is kept.
                response.close()

    async def aclose(self) -> None:
        """Close every connection; what still streams ends with a fault."""
        for pool in (self._calls, self._listeners):
            await pool.aclose()

    def _unanswered(
        self, error: EgressRefused | HttpFault, abandoned: Callable[[], None]
    ) -> UpstreamFailed:
        if isinstance(error, EgressRefused):
            refused = "This server is where the gateway does not go."
            return UpstreamFailed(refused, detail=error.detail)
        if isinstance(error, NoPlace):
            busy = "Too many calls of the upstream server are under way; soon there may be fewer."
            return UpstreamResting(busy, detail="no free connection in time")
        if isinstance(error, LATE):
            abandoned()
        return no_answer(error, self._timeouts)

    def _stream(self, response: Response, abandoned: Callable[[], None]) -> EventStream:
        return EventStream(
            response,
            timeouts=self._timeouts,
            limits=self._limits,
            server=self._origin,
            abandoned=abandoned,
        )

    async def _whole(
        self,
        response: Response,
        head: Head,
        verb: str,
        media: str,
        abandoned: Callable[[], None],
    ) -> RawAnswer:
        status = head.status
        if media != _JSON and status // 100 == 4:  # noqa: PLR2004 - RFC 9110 section 15.5
            # Clients act on the status alone (404: the session is over, 405: no stream here);
            # a page made for browsers is nothing for them.
            return _answer(head, b"", without="content-type")
        if media != _JSON and status >= HTTPStatus.INTERNAL_SERVER_ERROR:
            raise unusable(f"status {status}, media type {media[:40]!r}")
        # What has come by now and is little takes no room.
        body = response.whole(min(FREE, self._limits.result_bytes))
        if body is None:
            body = await self._read(response, abandoned)
        if media == _JSON:
            return _answer(head, body)
        if body and verb != "DELETE":
            raise unusable(f"status {status}, media type {media[:40]!r}")
        return _answer(head, b"", without="content-type")

    async def _read(self, response: Response, abandoned: Callable[[], None]) -> bytes:
        most, body = self._limits.result_bytes, bytearray()
        declared = most if response.length is None else min(most, response.length)
        try:
            async with answering(declared, self._origin) as room:
                while piece := await room.next(response.piece()):
                    body += piece
                    if len(body) > most:
                        raise too_large(f"more than {most} bytes")
                    await room.grown(len(body))
                room.settle(len(body))
        except HttpFault as error:
            if isinstance(error, LATE):
                abandoned()
            raise broken_answer(error, self._timeouts) from error
        return bytes(body)

    def _pool(self, most: int, idle_s: float | None) -> Pool:
        timeouts = self._timeouts
        waits = Waits(connect_s=timeouts.connect_s, idle_s=idle_s, hard_s=timeouts.hard_s)
        return Pool(self._connected, most=most, keep_s=_KEEP_ALIVE_S, waits=waits)

    async def _connected(self) -> Connection:
        """Return a connection to an address that is judged as it is made."""
        try:
            addresses = await self._addresses()
        except (OSError, UnicodeError) as error:
            raise ConnectFailed(type(error).__name__) from error
        return await dial(self._origin, addresses)

    async def _addresses(self) -> Sequence[IPAddress]:
        bounds, host, port = self._bounds, self._origin.host, self._origin.port
        if bounds is None:
            return tuple(map(ip_address, await self._resolve(host, port)))
        url = bounds.admit(self._url)
        if url.address is not None:
            return (url.address,)
        addresses = tuple(map(ip_address, await self._resolve(host, port)))
        bounds.policy.admit(url, addresses)
        return addresses


def _authority(url: URL) -> str:
    """Return the Host field (RFC 9110 section 7.2): a port only where it is not the scheme's."""
    host = url.host_subcomponent or ""
    return host if url.is_default_port() else f"{host}:{url.port}"


def _is_conditional(asked: Headers) -> bool:
    """Whether it was told which answer we have, and may say that it is still the one."""
    return any(name == CONDITION for name, _ in asked)


def _refuse_what_is_not_ours_to_relay(head: Head) -> None:
    status, fields = head.status, head.fields
    challenges = status == HTTPStatus.FORBIDDEN and "www-authenticate" in fields.first
    if status == HTTPStatus.UNAUTHORIZED or challenges:
        # Relayed, it would make the client doubt the token that it has for the gateway.
        challenge = ", ".join(fields.every("www-authenticate"))
        raise Challenged(status, challenge, fields.first.get("dpop-nonce") or "")
    if status // 100 not in {2, 4, 5}:  # RFC 9110 section 15
        raise unusable(f"status {status}")
    for coding in fields.every("content-encoding") if "content-encoding" in fields.first else ():
        if coding.strip().lower() != "identity":
            raise unusable(f"content encoding {coding[:40]!r}, though only identity was accepted")


def _answer(head: Head, body: bytes | EventStream, *, without: str = "") -> RawAnswer:
    first = head.fields.first
    kept = returned(head.fields)
    etag = first.get("etag")
    return RawAnswer(
        status=head.status,
        headers=tuple([pair for pair in kept if pair[0] != without]) if without else kept,
        session=first.get(SESSION),
        body=body,
        etag=None if etag is None else strong(etag),
    )
