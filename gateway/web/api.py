"""The admin API: every command over HTTP, for programs that hold an access token for it.

`pins.list` is `GET /api/v1/pins/list?server=mail`; what changes something is a POST with a JSON
object. There are no cookies here and no CORS, so a page in a browser can do nothing: it has no token,
cannot send JSON without asking first, and is refused for its `Origin` alone.
"""

import asyncio
from collections.abc import AsyncGenerator, AsyncIterator, Awaitable, Callable, Mapping
from contextlib import aclosing, asynccontextmanager, suppress
from functools import partial
from typing import Any
from urllib.parse import parse_qsl

import orjson
from starlette.requests import ClientDisconnect, Request
from starlette.responses import Response, StreamingResponse
from starlette.routing import Route
from starlette.types import Receive, Scope, Send

from gateway.admin.commands import Answer, Begin, Commands
from gateway.admin.people import ENDPOINT, SCOPE, People
from gateway.admin.person import Person
from gateway.domain.document import DEEPEST
from gateway.domain.identity import BearerToken, Credential
from gateway.domain.nodes import require_small, weight
from gateway.domain.throttle import Throttle
from gateway.errors import (
    AuditUnavailable,
    BadCommand,
    ConfigError,
    Denied,
    Fault,
    Forbidden,
    GatewayError,
    InsufficientScope,
    LimitExceeded,
    NotFound,
    PinMismatch,
    ProofRefused,
    RateLimited,
    Unauthenticated,
)
from gateway.ports import Clock
from gateway.turns import in_turn

_BODY_S = 30.0
_MOST_ARGUMENTS = 100
_LOOK_AGAIN_S = 10.0
"""How long a stream goes on without another look at who reads it: it may have no end."""
_LONGEST_TOKEN = 16 * 1024
_SCHEMES = frozenset({"bearer", "dpop"})
_MOST_RECORDED = 300
"""Refused commands of one address that are a record each, in a minute; the others are counted."""

_STATUS: tuple[tuple[type[GatewayError], int], ...] = (
    (Unauthenticated, 401),
    (InsufficientScope, 403),
    (Forbidden, 403),
    (Denied, 403),
    (NotFound, 404),
    (PinMismatch, 409),
    (LimitExceeded, 413),
    (RateLimited, 429),
    (Fault, 503),
    (ConfigError, 503),
    (BadCommand, 400),
)
_HEADERS = {"cache-control": "no-store", "x-content-type-options": "nosniff"}

_END = object()

Prover = Callable[[str, str, str, list[str]], Credential]
"""Reads what a request's method, path, token and proofs say of who sends it, or raises
`ProofRefused`."""


class ApiEndpoint:
    """Answers `/api/v1/...` on the admin listener."""

    def __init__(
        self,
        commands: Commands,
        people: People,
        *,
        most_bytes: int,
        client_address: Callable[[Scope], str],
        clock: Clock,
        resource_metadata: str,
        refused_unread: Callable[[str, str], None],
        proven: Prover = lambda *_: None,
        proofs: Callable[[], tuple[str, ...]] = tuple,
        most_failures: int = 20,
    ) -> None:
        """Take the URL of the API's RFC 9728 document, and what counts refusals by code and address.

        `proofs` says with what a proof for a bound token may be signed (RFC 9449 section 7.1).
        `most_failures` is how many refused requests an address has in a minute.
        """
        self._commands = commands
        self._people = people
        self._most_bytes = most_bytes
        self._failures = Throttle(allowed=most_failures, window_s=60.0)
        self._refusals = Throttle(allowed=_MOST_RECORDED, window_s=60.0)
        self._client_address = client_address
        self._clock = clock
        self._resource_metadata = resource_metadata
        self._refused_unread = refused_unread
        self._proven = proven
        self._proofs = proofs

    @property
    def route(self) -> Route:
        """Where it is, for every method: it says itself which go with what."""
        return Route(ENDPOINT + "/{command:path}", _AnyMethod(self))

    async def __call__(self, request: Request) -> Response:
        """Answer one request: JSON, or a line of JSON for each item of a stream."""
        source_ip = self._client_address(request.scope)
        if "origin" in request.headers:
            self._refused_unread("origin", source_ip)
            return _refusal(403, "origin", "the admin API is not for pages in a browser")
        wait_s = self._failures.wait_s(source_ip, self._clock())
        if wait_s:
            self._refused_unread("throttled", source_ip)
            refusal = _refusal(429, "throttled", "too many refused credentials; try again later")
            refusal.headers["retry-after"] = str(wait_s)
            return refusal
        try:
            return await self._answer(request, source_ip)
        except GatewayError as error:
            if isinstance(error, Unauthenticated | InsufficientScope):
                self._failures.note(source_ip, self._clock())
                return self._refused(await self._unknown(error, source_ip))
            return self._refused(error)

    async def _unknown(self, error: GatewayError, source_ip: str) -> GatewayError:
        """Return the refusal of nobody once it is on record, a missing token's too."""
        if not error.recorded:
            try:
                await self._people.unknown(error, source_ip=source_ip)
            except AuditUnavailable as fault:
                return fault
        return error

    async def _answer(self, request: Request, source_ip: str) -> Response:
        credential = await self._credential(request, source_ip)
        person = await self._people.by_credential(credential, source_ip=source_ip)
        command = _command(request)
        async with self._noted(person, command):
            begin = await self._asked(request, person, command)
        if request.method == "POST":
            # The rest of a request comes as late as its sender likes: who it is, is asked once more.
            person = await self._people.by_credential(credential, source_ip=source_ip)
        async with self._noted(person, command):
            still = self._still(person, credential, command)
            note = partial(self._note, person, command)
            return await _answered(begin(person), still, note)

    @asynccontextmanager
    async def _noted(self, person: Person, command: str) -> AsyncIterator[None]:
        try:
            yield
        except GatewayError as error:
            await self._note(person, command, error)
            raise

    async def _note(self, person: Person, command: str, error: GatewayError) -> None:
        """Put on record what a person was refused; of one address so many a minute, then counted."""
        if self._refusals.wait_s(person.source_ip, self._clock()):
            self._refused_unread(error.code, person.source_ip)
            return
        self._refusals.note(person.source_ip, self._clock())
        await self._people.refused(person, command, error)

    async def _credential(self, request: Request, source_ip: str) -> Credential:
        """Return the token of the one `Authorization` header (RFC 6750 section 2.1).

        Raises:
            Unauthenticated: There is none, or one whose proof is not valid; that is on record.

        """
        scheme, token = _shown(request)
        if scheme == "bearer":
            return BearerToken(text=token)
        path, proofs = request.scope["path"], request.headers.getlist("dpop")
        try:
            credential = self._proven(request.method, path, token, proofs)
        except ProofRefused as error:
            await self._people.unknown(error, source_ip=source_ip)
            raise
        if credential is None:
            raise Unauthenticated("an access token is required")
        return credential

    async def _asked(self, request: Request, person: Person, command: str) -> Begin:
        """Return what begins the command that a request asks for, once all of it has been read."""
        reads = self._commands.reads(command)
        if reads is None:
            raise NotFound("there is no such command")
        allowed = "GET" if reads else "POST"
        if request.method != allowed:
            raise _OtherMethod(allowed)
        if reads:
            return lambda who: self._commands.run_query(who, command, _pairs(request))
        if request.scope["query_string"]:
            raise BadCommand("send the arguments in the body")
        kinds = [kind.partition(";")[0].strip() for kind in request.headers.getlist("content-type")]
        if kinds != ["application/json"]:
            raise _UnsupportedType("send application/json")
        body = await self._body(request)
        return await in_turn(person.name, weight(body), self._read, command, body)

    def _read(self, command: str, body: bytes) -> Begin:
        """Return what begins the command with what a body says, which may be much and is nobody's yet."""
        try:
            require_small(body, DEEPEST)
            arguments = orjson.loads(body)
        except ValueError as error:
            raise BadCommand("the body is not JSON, or too much of it") from error
        if not isinstance(arguments, dict):
            raise BadCommand("the body must be a JSON object")
        return self._commands.read(command, orjson.dumps(arguments))

    def _still(
        self, person: Person, credential: Credential, command: str
    ) -> Callable[[], Awaitable[None]]:
        """Return what refuses once the token is good no more, or the person's roles have changed."""
        looked = self._clock()

        async def still() -> None:
            nonlocal looked
            if self._clock() - looked < _LOOK_AGAIN_S:
                return
            looked = self._clock()
            again = await self._people.by_credential(credential, source_ip=person.source_ip)
            if again.roles != person.roles:
                changed = Forbidden("your roles have changed; ask once more")
                await self._people.forbidden(person, command, changed)
                raise changed

        return still

    async def _body(self, request: Request) -> bytes:
        body = bytearray()
        try:
            async with asyncio.timeout(_BODY_S):
                async for chunk in request.stream():
                    body += chunk
                    if len(body) > self._most_bytes:
                        raise LimitExceeded("the body is too large")
        except TimeoutError as error:
            raise BadCommand("the body did not come in time") from error
        except ClientDisconnect as error:
            raise BadCommand("the body is cut short") from error
        return bytes(body)

    def _refused(self, error: GatewayError) -> Response:
        status = next((status for kind, status in _STATUS if isinstance(error, kind)), 400)
        if isinstance(error, _UnsupportedType):
            status = 415
        if isinstance(error, _OtherMethod):
            status = 405
        refusal = _refusal(status, error.code, error.public, error.reasons)
        if isinstance(error, _OtherMethod):
            refusal.headers["allow"] = error.allowed
        if isinstance(error, Unauthenticated | InsufficientScope):
            for challenge in self._challenges(error):
                refusal.headers.append("www-authenticate", challenge)
        return refusal

    def _challenges(self, error: GatewayError) -> tuple[str, ...]:
        """Return what RFC 6750 section 3, RFC 9449 section 7.1 and RFC 9728 section 5.1 want said."""
        short = 'error="insufficient_scope", ' if isinstance(error, InsufficientScope) else ""
        wrong = 'error="invalid_dpop_proof", ' if isinstance(error, ProofRefused) else short
        said = f'scope="{SCOPE}", resource_metadata="{self._resource_metadata}"'
        bearer, proofs = f"Bearer {short}{said}", self._proofs()
        return (bearer, f'DPoP {wrong}algs="{" ".join(proofs)}", {said}') if proofs else (bearer,)


def _command(request: Request) -> str:
    """Return the command that the path names; its one spelling has no dot."""
    path: str = request.path_params["command"]
    return "" if "." in path else path.replace("/", ".")


class _OtherMethod(BadCommand):
    """The command has another method; 405."""

    code = "method_not_allowed"

    def __init__(self, allowed: str) -> None:
        super().__init__(f"use {allowed}")
        self.allowed = allowed


class _UnsupportedType(BadCommand):
    """The body is of another media type; 415."""


class _AnyMethod:
    """An ASGI application; to Starlette, a function would be for GET alone."""

    def __init__(self, endpoint: ApiEndpoint) -> None:
        self._endpoint = endpoint

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        response = await self._endpoint(Request(scope, receive))
        await response(scope, receive, send)


def _shown(request: Request) -> tuple[str, str]:
    """Return the scheme, in lower case, and the token of the one `Authorization` header.

    Raises:
        Unauthenticated: There is none.

    """
    lines = request.headers.getlist("authorization")
    scheme, _, token = lines[0].partition(" ") if len(lines) == 1 else ("", "", "")
    if scheme.lower() not in _SCHEMES or not 0 < len(token.strip()) <= _LONGEST_TOKEN:
        raise Unauthenticated("an access token is required")
    return scheme.lower(), token.strip()


def _pairs(request: Request) -> list[tuple[str, str]]:
    try:
        return parse_qsl(
            request.scope["query_string"].decode("ascii"),
            keep_blank_values=True,
            errors="strict",
            max_num_fields=_MOST_ARGUMENTS,
        )
    except ValueError as error:
        raise BadCommand("the query cannot be read") from error


async def _answered(
    answer: Answer,
    still: Callable[[], Awaitable[None]],
    note: Callable[[GatewayError], Awaitable[None]],
) -> Response:
    if not isinstance(answer, AsyncGenerator):
        return _json(await answer, 200)
    # Begun here, so that a refusal is still a status.
    first = await anext(answer, _END)
    return StreamingResponse(
        _lines(first, answer, still, note), media_type="application/x-ndjson", headers=_HEADERS
    )


async def _lines(
    first: Any,
    items: AsyncGenerator[Any, None],
    still: Callable[[], Awaitable[None]],
    note: Callable[[GatewayError], Awaitable[None]],
) -> AsyncIterator[bytes]:
    """Yield a line for each item, and a last one that says whether that was all.

    What breaks a stream off is on record, as what is refused at once is.
    """
    last: Mapping[str, Any] = {"more": False}
    async with aclosing(items):
        item = first
        try:
            while item is not _END:
                await still()
                yield orjson.dumps({"more": True, "result": item}) + b"\n"
                item = await anext(items, _END)
        except GatewayError as error:
            last = {"more": False, "code": error.code, "message": error.public}
            with suppress(AuditUnavailable):
                await note(error)
    yield orjson.dumps(last) + b"\n"


def _refusal(
    status: int, code: str, message: str, reasons: tuple[tuple[str, str], ...] = ()
) -> Response:
    told = [{"code": code, "message": message} for code, message in reasons]
    return _json({"code": code, "message": message, "reasons": told}, status)


def _json(content: Any, status: int) -> Response:
    return Response(orjson.dumps(content), status, _HEADERS, media_type="application/json")
