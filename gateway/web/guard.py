"""What stands before everything that a listener would say, its 404s and its mistakes included.

Before a body is parsed it is looked at: address, Host, Origin, size, who only got refusals.
"""

import asyncio
import ipaddress
import re
from collections.abc import Callable, Iterable
from dataclasses import replace
from http import HTTPStatus
from typing import Self
from urllib.parse import urlsplit

import orjson
from starlette.types import ASGIApp, Receive, Scope, Send

from gateway.domain._value import value
from gateway.domain.throttle import Throttle
from gateway.web.scopes import TARGET, found_in

_LOOPBACK = frozenset({"127.0.0.1", "localhost", "[::1]"})
_EVERY_ADDRESS = frozenset({"0.0.0.0", "::"})  # noqa: S104 - compared with, not listened on
_MOST_DIGITS = 18
_PATH = re.compile(rb"(?:/(?!\.{0,2}(?:/|$))[A-Za-z0-9._~-]+)+|/", re.ASCII)
"""How every path of ours is spelled: nothing to decode, no empty segment, `.` or `..`, no last `/`."""
_ABSOLUTE = re.compile(rb"https?://([^/?#]*)[/?#]", re.ASCII | re.IGNORECASE)
_CLOSING = frozenset({408, 413, 503})
"""After these the rest of the body may still be on its way, so the connection cannot be kept."""

UNREAD = "douane.refused_unread"
"""Where in a scope it stands by which code an answer is to be counted, if no record says it."""


@value
class Refused:
    """A plain HTTP answer, given before anything was parsed."""

    status: int
    code: str
    text: str
    retry_after_s: int = 0


@value
class Guard:
    """Which paths, hosts and origins this listener answers to (MCP 2025-11-25, transports, security)."""

    hosts: frozenset[str]
    """Exact `Host` values, lower case."""
    origins: frozenset[str] | None
    """Exact `Origin` values, lower case; `None` only in front of what judges them itself."""
    request_bytes: int
    by_address: bool = False
    """Whether the address at which a connection arrived is a `Host` too, as whoever probes writes it.
    A page that rebinds a name has that name there, and never an address of ours."""

    def refuses(self, scope: Scope) -> Refused | None:
        """Return why the request of this scope is refused, or `None`."""
        guard = self
        if self.by_address:
            guard = replace(self, hosts=self.hosts | _arrived_at(scope))
        return guard.check(scope["headers"]) or _misspelled(scope)

    def check(self, headers: Iterable[tuple[bytes, bytes]]) -> Refused | None:
        """Return why a request with these raw headers is refused, or `None`.

        The Host check keeps a page that rebinds its own name to our address out; the Origin check
        keeps every browser page out that the operator did not name. Each header counts once.
        """
        hosts: list[bytes] = []
        for name, content in headers:
            if name == b"host":
                hosts.append(content)
            elif name == b"origin":
                origin = content.decode("latin-1").lower()
                if self.origins is not None and origin not in self.origins:
                    return Refused(status=403, code="origin", text="this Origin is not allowed")
            elif name == b"content-length" and not self._fits(content):
                return Refused(status=413, code="too_large", text="the body is too large")
            elif name == b"content-encoding" and content.lower() != b"identity":
                return Refused(status=415, code="encoding", text="send the body unencoded")
        if len(hosts) != 1 or hosts[0].decode("latin-1").lower() not in self.hosts:
            return Refused(status=421, code="host", text="this Host is not served here")
        return None

    def for_any_origin(self) -> Self:
        """Return the same guard for what judges origins itself, or is open to every page."""
        return replace(self, origins=None)

    def _fits(self, content_length: bytes) -> bool:
        if not content_length.isdigit() or len(content_length) > _MOST_DIGITS:
            return False
        return int(content_length) <= self.request_bytes


def _arrived_at(scope: Scope) -> frozenset[str]:
    """Return the `Host` of whoever asked for this connection's address itself; none if it has none."""
    if scope.get("server") is None:
        return frozenset()
    host, port = scope["server"]
    address = ipaddress.ip_address(host)
    # A socket for both kinds of address tells those of IPv4 in the other's form.
    plain = getattr(address, "ipv4_mapped", None) or address
    return frozenset({f"{_bracketed(str(plain))}:{port}"})


def _misspelled(scope: Scope) -> Refused | None:
    """Return why a target that is not spelled as ours are is refused.

    Whoever stands before us, or reads what we recorded, knows one spelling of each path. A target
    may name an authority of its own (RFC 9112 section 3.2.2): it counts only as the `Host` it repeats.
    """
    target = scope.get("extensions", {}).get(TARGET, {}).get("sent", b"/")
    if not target.startswith(b"/"):
        named = _ABSOLUTE.match(target)
        hosts = [content for name, content in scope["headers"] if name == b"host"]
        if named is None or [named[1].lower()] != [host.lower() for host in hosts]:
            return Refused(status=421, code="host", text="this authority is not served here")
    if _PATH.fullmatch(scope.get("raw_path", b"")) is None:
        return Refused(status=404, code="no_endpoint", text="there is no such path")
    return None


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
        self._passed = object()
        """What is noted of a head that it let pass, which may outlive it."""

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Pass a request on that is meant for us; nothing but HTTP is spoken here."""
        if scope["type"] == "websocket":
            await send({"type": "websocket.close", "code": 1008})
        if scope["type"] != "http":
            return
        found = found_in(scope)
        if found.passed_by is not self._passed:
            guard = self._open if scope["path"].startswith(self._open_to_pages) else self._guard
            refused = guard.refuses(scope)
            if refused is not None:
                self._refused_unread(refused.code, self._client_address(scope))
                await plain(send, refused)
                return
            found.passed_by = self._passed
        await self._app(scope, receive, send)


async def plain(send: Send, refused: Refused) -> None:
    """Answer with `refused`."""
    # Some clients read the body of whatever they do not find as JSON.
    is_json = refused.status == HTTPStatus.NOT_FOUND
    told = {"error": "not_found", "error_description": refused.text}
    body = orjson.dumps(told) if is_json else refused.text.encode() + b"\n"
    headers = [
        (b"content-type", b"application/json" if is_json else b"text/plain; charset=utf-8"),
        (b"content-length", str(len(body)).encode()),
        (b"cache-control", b"no-store"),
    ]
    if refused.retry_after_s:
        headers.append((b"retry-after", str(refused.retry_after_s).encode()))
    if refused.status in _CLOSING:
        headers.append((b"connection", b"close"))
    await send({"type": "http.response.start", "status": refused.status, "headers": headers})
    await send({"type": "http.response.body", "body": body})


def throttled(failures: Throttle, address: str) -> Refused | None:
    """Return why a request of `address` is refused unread, if too many of its were refused."""
    wait_s = failures.wait_s(address, asyncio.get_running_loop().time())
    if not wait_s:
        return None
    text = f"too many refused requests from this address; wait {wait_s} seconds"
    return Refused(status=429, code="throttled", text=text, retry_after_s=wait_s)


def guard_for(
    public_url: str, listen: tuple[str, int], allowed_origins: Iterable[str], request_bytes: int
) -> Guard:
    """Return the guard of a listener: the public URL's host, and the address it listens on.

    Where the public URL is a loopback one, its other loopback spellings count too.
    """
    parts = urlsplit(public_url)
    host = _bracketed(parts.hostname or "")
    port = parts.port or (443 if parts.scheme == "https" else 80)
    names = {host} | (_LOOPBACK if host in _LOOPBACK else set())
    hosts = {f"{name}:{port}" for name in names}
    if port in (80, 443):
        hosts |= names
    listen_host = _bracketed(listen[0])
    hosts.add(f"{listen_host}:{listen[1]}")
    if listen_host in _LOOPBACK:
        hosts |= {f"{name}:{listen[1]}" for name in _LOOPBACK}
    origins = {f"{parts.scheme}://{name}" for name in hosts} if host in _LOOPBACK else set()
    origins |= {public_url.lower()} | {origin.lower() for origin in allowed_origins}
    return Guard(hosts=frozenset(hosts), origins=frozenset(origins), request_bytes=request_bytes)


def guard_of_admins(listen: tuple[str, int], request_bytes: int) -> Guard:
    """Return the guard of the admin listener, which has no name but the address it listens on.

    On every address, each of them is its own.
    """
    host, port = listen
    guard = guard_for(f"http://{_bracketed(host)}:{port}", listen, (), request_bytes)
    return replace(guard, by_address=host in _EVERY_ADDRESS)


def _bracketed(host: str) -> str:
    return f"[{host}]" if ":" in host else host.lower()
