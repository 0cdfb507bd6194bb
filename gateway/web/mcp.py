"""The MCP endpoints over HTTP: a request becomes a `Call`, a `Reply` becomes a response.

Plain ASGI, because every call passes here and each layer between costs it.
"""

import asyncio
from collections.abc import AsyncGenerator, Callable, Iterable
from contextlib import aclosing
from dataclasses import field
from time import monotonic_ns
from typing import TypeAlias

from starlette.types import Receive, Scope, Send

from gateway.domain._value import value
from gateway.domain.calls import AGGREGATE, Call, CallId, Form, Message, Reply
from gateway.domain.identity import BearerToken, Credential
from gateway.domain.nodes import weight
from gateway.domain.room import SHARE, Rooms, Share
from gateway.domain.throttle import Throttle
from gateway.domain.tools import OWN, Profile, UpstreamId
from gateway.errors import Fault, GatewayError, ProtocolError, RateLimited, Unauthenticated
from gateway.turns import in_turn
from gateway.web.call_metrics import CallMetrics
from gateway.web.carrier import Carrier
from gateway.web.guard import Refused, plain, throttled
from gateway.web.scopes import Found, found_in
from gateway.wire.jsontext import WireLimits
from gateway.wire.operations import LISTEN
from gateway.wire.revisions import read_delete, read_get, read_posted

PREFIX = "/mcp/"
_QUICK_S = 0.05
"""A call that is answered sooner needs nobody to watch whether its caller is still there."""
_BODY_S = 30.0
"""How long a request's body may take to arrive."""
_TOO_LARGE = Refused(status=413, code="too_large", text="the body is too large")
_BUSY = Refused(
    status=503, code="busy", text="too many large bodies are under way", retry_after_s=1
)
_FAILURES = frozenset({Unauthenticated.code, ProtocolError.code})
"""Refusals of requests that nobody answers for."""
_OF_NOBODY = _FAILURES | {Fault.code}
"""The same before anybody is known: who has found a bug there must not fill the log with it."""
_LAST = {"type": "http.response.body", "body": b""}
"""What ends a streamed response."""
_NO_STORE = (b"cache-control", b"no-store")


_Pairs: TypeAlias = list[tuple[str, str]]
Prover = Callable[[str, str, str, list[str]], Credential]
"""Reads what a request's method, path, token and proofs say of who sends it (RFC 9449 section 7.1), or
raises `ProofRefused`."""

_FORMS = {"POST": Form.REQUEST, "GET": Form.STREAM, "DELETE": Form.END}


class Disconnected(Exception):
    """The client went away before its request was whole."""


class McpEndpoint:
    """Serves `/mcp`, and `/mcp/{server}` for every configured server."""

    def __init__(
        self,
        *,
        carrier: Carrier,
        aggregate: Carrier,
        servers: Iterable[str],
        most_bytes: int,
        limits: WireLimits,
        metrics: CallMetrics,
        client_address: Callable[[Scope], str],
        new_id: Callable[[], str],
        proven: Prover = lambda *_: None,
        most_failures: int = 300,
    ) -> None:
        """`aggregate` carries what comes in at `/mcp`, `carrier` everything else; a guard is before it.

        `most_failures` is how many unreadable or unauthenticated requests one address has a
        minute; beyond them it is refused unread, so that it cannot fill the audit log.
        """
        self._carrier = carrier
        self._aggregate = aggregate
        self._servers = {AGGREGATE: OWN} | {f"{PREFIX}{name}": UpstreamId(name) for name in servers}
        """By path; our own at `/mcp`."""
        self._most_bytes = most_bytes
        self._limits = limits
        self._metrics = metrics
        self._client_address = client_address
        self._new_id = new_id
        self._proven = proven
        self._failures = Throttle(allowed=most_failures, window_s=60.0)
        self._rooms = Rooms(largest=most_bytes)
        self._listening: set[_Watch] = set()
        self._ending = False

    def end_listening(self) -> None:
        """End the streams that wait for what servers say by themselves, now and from now on.

        Nobody waits for an answer there, and the process could not end before they do.
        """
        self._ending = True
        for watch in self._listening:
            watch.end()

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer one HTTP request."""
        address = self._client_address(scope)
        refused = self._misdirected(scope) or throttled(self._failures, address)
        if refused is not None:
            self._metrics.refused_unread(refused.code, address)
            await plain(send, refused)
            return
        found = found_in(scope)
        asker = await self._known(scope, found.pairs, address, send)
        if asker is None:
            return
        share = Share(self._rooms, asker.person)
        SHARE.set(share)
        try:
            body = await self._body(scope, receive, share)
            if isinstance(body, Refused):
                self._metrics.refused_unread(body.code, address)
                await plain(send, body)
                return
            await self._carry(scope, found, receive, send, body, asker=asker)
        except Disconnected:
            return
        finally:
            share.end()

    async def _known(
        self, scope: Scope, headers: _Pairs, address: str, send: Send
    ) -> "_Asker | None":
        """Return whoever asks; nobody is refused by the head alone, and is `None`.

        What they sent besides is not even asked for: reading is what strangers get for nothing.
        """
        carrier = self._aggregate if scope["path"] == AGGREGATE else self._carrier
        credential: Credential = None
        arrived = monotonic_ns()  # before anything is waited for
        try:
            # Once a request: a proof that is read again is another request's.
            credential = self._credential(scope, headers)
            who = (await carrier.known(credential, scope["path"])).person
            return _Asker(
                person=who,
                address=address,
                carrier=carrier,
                credential=credential,
                arrived=arrived,
            )
        except GatewayError as error:
            unread = self._unread(scope, headers, address, credential=credential)
            refused = await carrier.refuse(unread, error)
        self._note(address, refused, _OF_NOBODY)
        body = refused.body if isinstance(refused.body, bytes) else b""
        await _whole(send, refused, body)
        return None

    def _credential(self, scope: Scope, headers: _Pairs) -> Credential:
        """Return the token of the Authorization header; from nowhere else (RFC 6750 section 2)."""
        for name, content in headers:
            if name == "authorization":
                scheme, _, token = content.partition(" ")
                if scheme.lower() == "dpop":
                    proofs = [text for each, text in headers if each == "dpop"]
                    return self._proven(scope["method"], scope["path"], token.strip(), proofs)
                return BearerToken(text=token.strip()) if scheme.lower() == "bearer" else None
        return None

    def _misdirected(self, scope: Scope) -> Refused | None:
        if scope["path"] not in self._servers:
            return Refused(status=404, code="no_endpoint", text="there is no such endpoint")
        if scope["method"] not in _FORMS:
            return Refused(status=405, code="method", text="use POST, GET or DELETE")
        return None

    async def _body(self, scope: Scope, receive: Receive, share: Share) -> bytes | Refused:
        if scope["method"] != "POST":
            return b""
        message = await receive()
        body: bytes = message.get("body", b"")
        if message["type"] == "http.disconnect":
            raise Disconnected
        if message.get("more_body"):
            return await self._rest(body, receive, share)
        if len(body) > self._most_bytes:
            return _TOO_LARGE
        return body if share.covers(len(body)) else _BUSY

    async def _rest(self, first: bytes, receive: Receive, share: Share) -> bytes | Refused:
        # What has come takes room, not what is said to come: who sends nothing keeps nobody waiting.
        parts, size = [first], len(first)
        if not share.covers(size):
            return _BUSY
        try:
            async with asyncio.timeout(_BODY_S):
                while True:
                    message = await receive()
                    if message["type"] == "http.disconnect":
                        raise Disconnected
                    parts.append(message.get("body", b""))
                    size += len(parts[-1])
                    if size > self._most_bytes:
                        return _TOO_LARGE
                    if not share.covers(size):
                        return _BUSY
                    if not message.get("more_body"):
                        return b"".join(parts)
        except TimeoutError:
            return Refused(status=408, code="slow_body", text="the body took too long")

    def _note(self, address: str, reply: Reply, failures: frozenset[str] = _FAILURES) -> None:
        """Count what nobody answers for against the address that it came from."""
        if reply.code in failures:
            now = asyncio.get_running_loop().time()
            self._failures.note(address, now)

    async def _carry(
        self,
        scope: Scope,
        found: Found,
        receive: Receive,
        send: Send,
        body: bytes,
        *,
        asker: "_Asker",
    ) -> None:
        watch = _Watch(receive)
        try:
            reply = await self._reply(scope, found, body, asker, watch)
            if reply.code is not None:
                self._note(asker.address, reply)
            if isinstance(reply.body, bytes):
                await _whole(send, reply, reply.body)
            else:
                self._listen(watch)
                await _streamed(send, reply, reply.body)
        except asyncio.CancelledError:
            if not watch.gone:
                raise
            _uncancel()
            if watch.ended:
                await send(_LAST)
        finally:
            watch.stop()
            self._listening.discard(watch)

    def _listen(self, watch: "_Watch") -> None:
        """Note a stream that has no answer to wait for; while we are ending, end it."""
        if watch.listens:
            self._listening.add(watch)
            if self._ending:
                watch.end()

    async def _reply(
        self, scope: Scope, found: Found, body: bytes, asker: "_Asker", watch: "_Watch"
    ) -> Reply:
        try:
            if scope["method"] == "POST":
                inbound = await in_turn(
                    asker.person, weight(body), read_posted, found.headers, body, self._limits
                )
            else:
                read = read_get if scope["method"] == "GET" else read_delete
                inbound = read(found.pairs)
        except (ProtocolError, RateLimited) as error:
            rpc_id = error.rpc_id if isinstance(error, ProtocolError) else None
            unread = self._unread(scope, found.pairs, asker.address, rpc_id=rpc_id, body=body)
            return await asker.carrier.refuse(unread, error)
        message = inbound.message
        watch.listens = message.form is Form.STREAM or message.method == LISTEN
        call = Call(
            id=CallId(self._new_id()),
            endpoint=scope["path"],
            server=self._servers[scope["path"]],
            message=message,
            revision=inbound.revision,
            profile=inbound.profile,
            headers=inbound.headers,
            credential=asker.credential,
            session=inbound.session,
            source_ip=asker.address,
            asker=asker.person,
            arrived=asker.arrived,
            trace=inbound.trace,
            run_hint=inbound.run_hint,
        )
        return await asker.carrier.handle(call)

    def _unread(
        self,
        scope: Scope,
        headers: _Pairs,
        address: str,
        *,
        rpc_id: str | int | None = None,
        body: bytes = b"",
        credential: Credential = None,
    ) -> Call:
        """Return a call that stands for a request that was not read; it is only refused."""
        version = dict(headers).get("mcp-protocol-version", "")
        return Call(
            id=CallId(self._new_id()),
            endpoint=scope["path"],
            server=self._servers[scope["path"]],
            message=Message(
                form=_FORMS[scope["method"]], method="", id=rpc_id, params={}, body=body
            ),
            revision=version[:32],
            profile=Profile.LEGACY,
            headers=(),
            credential=credential,
            session=None,
            source_ip=address,
        )


@value
class _Asker:
    """Who sent a request, as far as its head says."""

    person: str
    address: str
    carrier: Carrier
    credential: Credential = field(repr=False)
    arrived: int = 0


class _Watch:
    """Ends the current task when its caller goes away.

    In the stateless revision that cancels the call (MCP 2026-07-28, cancellation); in the legacy
    ones it only ends our part of it, and the client may come back for the rest of a stream.
    """

    def __init__(self, receive: Receive) -> None:
        self.gone = False
        self.ended = False
        """It was us who went."""
        self.listens = False
        self._receive = receive
        self._caller = asyncio.current_task()
        self._watcher: asyncio.Task[None] | None = None
        self._timer = asyncio.get_running_loop().call_later(_QUICK_S, self._start)

    def stop(self) -> None:
        self._timer.cancel()
        if self._watcher is not None:
            self._watcher.cancel()
            self._watcher = None  # it ends with an exception that came through us

    def _start(self) -> None:
        self._watcher = asyncio.create_task(self._wait())

    async def _wait(self) -> None:
        while (await self._receive())["type"] != "http.disconnect":
            pass
        self._go()

    def end(self) -> None:
        """End the task as if the caller had gone."""
        self.ended = True
        self._go()

    def _go(self) -> None:
        self.gone = True
        if self._caller is not None:
            self._caller.cancel()


def _uncancel() -> None:
    task = asyncio.current_task()
    if task is not None:
        task.uncancel()


async def _whole(send: Send, reply: Reply, body: bytes) -> None:
    headers = _raw(reply.headers)
    headers.append((b"content-length", str(len(body)).encode()))
    await send({"type": "http.response.start", "status": reply.status, "headers": headers})
    await send({"type": "http.response.body", "body": body})


async def _streamed(send: Send, reply: Reply, parts: AsyncGenerator[bytes, None]) -> None:
    async with aclosing(parts):
        # Begun, the stream sees to its own end, whatever happens from here on.
        await anext(parts)
        headers = _raw(reply.headers)
        await send({"type": "http.response.start", "status": reply.status, "headers": headers})
        async for part in parts:
            await send({"type": "http.response.body", "body": part, "more_body": True})
        await send(_LAST)


def _raw(headers: tuple[tuple[str, str], ...]) -> list[tuple[bytes, bytes]]:
    """Return the header fields of a reply, which is for its principal and for no cache."""
    kept = [
        (name.encode("latin-1"), content.encode("latin-1"))
        for name, content in headers
        if name != "cache-control"
    ]
    return [*kept, _NO_STORE]
