"""The one way out to URLs that somebody else names, and only to where the operator lets us go."""

import asyncio
import socket
import ssl
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import field
from ipaddress import ip_address
from pathlib import Path
from typing import Any, TypeVar
from urllib.parse import urlencode

from gateway.domain._value import value
from gateway.errors import ConfigError, UpstreamFailed
from gateway.http1 import (
    AddressInfo,
    HttpFault,
    Origin,
    Patience,
    Response,
    authorities,
    common_head,
    dial,
    request,
    system_authorities,
)
from gateway.upstream.addresses import IPAddress
from gateway.upstream.bounds import EgressPolicy
from gateway.upstream.resolver import Resolver, SystemResolver
from gateway.upstream.urls import WebUrl, read_url
from gateway.wire.jsontext import read_lenient, write_octets

__all__ = ["MOST_BYTES", "EgressPolicy", "GuardedFetcher", "WholeAnswer"]

T = TypeVar("T")

MOST_BYTES = 256 << 10
"""More than any metadata document, key set or token answer needs."""

_WHOLE_S = 5.0
_JSON_DEPTH = 16
_PUBLIC = "The server gave no usable answer."

_FIXED_HEADERS = {
    "accept": "application/json",
    "accept-encoding": "identity",
    "connection": "close",
    "user-agent": "douane",
}


@value
class WholeAnswer:
    """An answer that was read to its end."""

    status: int
    headers: Mapping[str, str]
    """Lower-case names; several of one name are joined by commas (RFC 9110 section 5.2)."""
    body: bytes = field(repr=False)

    def json(self) -> Mapping[str, Any]:
        """Return the body as a JSON object.

        Raises:
            UpstreamFailed: It is none, or an ambiguous one.

        """
        try:
            content = read_lenient(self.body, _JSON_DEPTH)
        except ValueError as error:
            raise _unusable("the body is not JSON") from error
        if not isinstance(content, dict):
            raise _unusable("the body is not a JSON object")
        return content


class GuardedFetcher:
    """`ports.egress.Fetcher`: a name is looked up once, and what was judged is what is dialled.

    Every fetch has a connection of its own. Redirects, cookies, proxies from the environment and
    compressed answers are followed, kept, used and accepted by nobody here.
    """

    def __init__(
        self,
        policy: EgressPolicy,
        *,
        ca: Path | None = None,
        resolver: Resolver | None = None,
        sockets: Callable[[AddressInfo], socket.socket] | None = None,
        most_bytes: int = MOST_BYTES,
        whole_s: float = _WHOLE_S,
    ) -> None:
        """Trust the system's authorities, and those in the PEM file `ca` besides.

        `most_bytes` bounds an answer's body, `whole_s` everything from looking the name up to the
        body's end. `sockets` makes the socket for an address that is about to be dialled.

        Raises:
            ConfigError: `ca` holds no certificate.

        """
        self._policy = policy
        self._tls = _tls(ca)
        self._resolve = resolver or SystemResolver()
        self._sockets = sockets
        self._most_bytes = most_bytes
        self._whole_s = whole_s

    async def get(
        self, url: str, *, headers: Mapping[str, str] | None = None, who: str = ""
    ) -> WholeAnswer:
        """Return the answer, whatever its status.

        Raises:
            EgressRefused: The URL or an address it resolves to is not allowed.
            UpstreamFailed: No whole answer in time.

        """
        return await self._fetched("GET", url, headers or {}, None, self._whole, who=who)

    async def post(
        self,
        url: str,
        *,
        form: Mapping[str, str] | None = None,
        json: Mapping[str, Any] | None = None,
        headers: Mapping[str, str] | None = None,
        who: str = "",
    ) -> WholeAnswer:
        """Send a form or a JSON document once, and return the answer, whatever its status.

        Raises:
            EgressRefused: The URL or an address it resolves to is not allowed.
            UpstreamFailed: No whole answer in time.

        """
        media, body = _written(form, json)
        fields = {**(headers or {}), "content-type": media}
        return await self._fetched("POST", url, fields, body, self._whole, who=who)

    async def send(self, url: str, body: bytes, *, headers: Mapping[str, str]) -> WholeAnswer:
        """Send `body` as it is, once, and return the answer without its body, which is not read.

        Raises:
            EgressRefused: The URL or an address it resolves to is not allowed.
            UpstreamFailed: No answer in time.

        """
        return await self._fetched("POST", url, headers, body, _head)

    async def upload(self, url: str, body: bytes, *, headers: Mapping[str, str]) -> WholeAnswer:
        """Send `body` as it is, once, and return the answer, whatever its status.

        What cannot be taken of the answer's body is left out: the status says whether it was taken.

        Raises:
            EgressRefused: The URL or an address it resolves to is not allowed.
            UpstreamFailed: No answer in time.

        """
        return await self._fetched("POST", url, headers, body, self._answered)

    async def _fetched(
        self,
        verb: str,
        text: str,
        headers: Mapping[str, str],
        body: bytes | None,
        take: Callable[[WebUrl, Response], Awaitable[T]],
        *,
        who: str = "",
    ) -> T:
        """Return what `take` makes of the answer, within the time there is."""
        url = read_url(text)
        asked = _request(verb, url, headers, body)
        try:
            async with asyncio.timeout(self._whole_s):
                addresses = await self._look_up(url, who)
                self._policy.admit(url, addresses)
                connection = await dial(
                    _origin(url), addresses, tls=self._tls, sockets=self._sockets
                )
                until = asyncio.get_running_loop().time() + self._whole_s
                response = connection.exchange(asked, Patience(idle_s=None, until=until))
                try:
                    await response.begun()
                    return await take(url, response)
                finally:
                    response.close()
                    connection.close()
        except TimeoutError as error:
            raise _unusable(f"{url.host} did not answer within {self._whole_s:g} s") from error
        except HttpFault as error:
            raise _unusable(f"{url.host}: {type(error).__name__}: {error}") from error

    async def _look_up(self, url: WebUrl, who: str) -> Sequence[IPAddress]:
        if url.address is not None:
            return (url.address,)
        try:
            addresses = tuple(map(ip_address, await self._resolve(url.host, url.port, who)))
        except (OSError, ValueError) as error:
            raise _unusable(f"{url.host} cannot be looked up") from error
        if not addresses:
            raise _unusable(f"{url.host} has no address")
        return addresses

    async def _whole(self, url: WebUrl, response: Response) -> WholeAnswer:
        coding = response.fields.first.get("content-encoding") or "identity"
        if coding.strip().lower() != "identity":
            raise _unusable(f"{url.host}: a content encoding, though none was accepted")
        return WholeAnswer(
            status=response.status, headers=_joined(response), body=await self._read(response)
        )

    async def _answered(self, url: WebUrl, response: Response) -> WholeAnswer:
        try:
            return await self._whole(url, response)
        except (UpstreamFailed, HttpFault):
            # Who is told that it was not taken sends it again, for ever if the answer is always so.
            return WholeAnswer(status=response.status, headers=_joined(response), body=b"")

    async def _read(self, response: Response) -> bytes:
        body = bytearray()
        while piece := await response.piece():
            body += piece
            if len(body) > self._most_bytes:
                raise _unusable(f"more than {self._most_bytes} bytes")
        return bytes(body)


async def _head(url: WebUrl, response: Response) -> WholeAnswer:  # noqa: ARG001 - of all that is taken
    return WholeAnswer(status=response.status, headers=_joined(response), body=b"")


def _tls(ca: Path | None) -> ssl.SSLContext:
    if ca is None:
        return system_authorities()
    context = authorities()
    try:
        context.load_verify_locations(ca)
    except OSError as error:
        raise ConfigError(
            "the further authority for https cannot be used",
            problems=[f"egress.ca: {ca} is no readable PEM file of certificates"],
        ) from error
    return context


def _written(
    form: Mapping[str, str] | None, document: Mapping[str, Any] | None
) -> tuple[str, bytes]:
    if document is not None:
        return "application/json", write_octets(document)
    return "application/x-www-form-urlencoded", urlencode(form or {}).encode()


def _origin(url: WebUrl) -> Origin:
    return Origin(host=url.host, port=url.port, is_tls=url.scheme == "https")


def _request(verb: str, url: WebUrl, headers: Mapping[str, str], body: bytes | None) -> bytes:
    fields = _FIXED_HEADERS | {name.lower(): text for name, text in headers.items()}
    common = common_head(url.target, url.authority, fields.items())
    return request(verb, common, [], body or b"")


def _joined(response: Response) -> Mapping[str, str]:
    names = {name for name, _ in response.fields}
    return {name: ", ".join(response.fields.every(name)) for name in names}


def _unusable(detail: str) -> UpstreamFailed:
    return UpstreamFailed(_PUBLIC, detail=detail)
