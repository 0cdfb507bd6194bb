"""The OAuth routes for programs: metadata, keys, and the endpoints that clients post to."""

from collections.abc import Awaitable, Callable, Mapping
from typing import Any

import orjson
from starlette.requests import ClientDisconnect, Request
from starlette.responses import Response
from starlette.routing import Route
from starlette.types import Scope

from gateway.domain._value import value
from gateway.oauth.device import DeviceEndpoint
from gateway.oauth.metadata import (
    AUTHORIZATION_SERVER_PATH,
    CLIENT_METADATA_PATH,
    DEVICE_PATH,
    JWKS_PATH,
    PROTECTED_RESOURCE_PATH,
    REGISTER_PATH,
    REVOKE_PATH,
    TOKEN_PATH,
    Metadata,
)
from gateway.oauth.records import TokenAnswer, TokenRequest
from gateway.oauth.registration import LARGEST_METADATA_BYTES, RegistrationEndpoint
from gateway.oauth.resources import ADMIN_API
from gateway.oauth.revocation import RevocationEndpoint
from gateway.oauth.token_endpoint import TokenEndpoint
from gateway.web.guard import UNREAD

LARGEST_FORM_BYTES = 64 * 1024

_FORM = "application/x-www-form-urlencoded"
_JSON = "application/json"
_NOT_FOUND = {"error": "not_found", "error_description": "there is no such document"}
"""Some clients read the body of whatever they do not find as JSON."""
_ANYWHERE = {"access-control-allow-origin": "*"}
"""A client in a browser may be anywhere. It sends no cookies here, and none would be looked at."""

FROM_ANYWHERE = ("/.well-known/", JWKS_PATH, TOKEN_PATH, REGISTER_PATH, REVOKE_PATH)
"""Beginnings of the paths that pages of every origin may use."""

Handler = Callable[[Request], Awaitable[Response]]
Answering = Callable[[TokenRequest], Awaitable[TokenAnswer]]
Missed = Callable[[TokenAnswer], Awaitable[None]]
"""Takes note of an answer that nobody was there for."""


@value
class IssuingEndpoints:
    """Where the gateway's own authorization server answers programs."""

    jwks: Callable[[], Mapping[str, Any]]
    """The public keys of this moment."""
    token: TokenEndpoint
    registration: RegistrationEndpoint
    revocation: RevocationEndpoint
    device: DeviceEndpoint


def oauth_routes(
    metadata: Metadata,
    issuing: IssuingEndpoints | None,
    client_metadata: Callable[[], Mapping[str, Any]],
    client_address: Callable[[Scope], str],
) -> list[Route]:
    """Return the routes of what is given: they say what it says, and judge nothing themselves.

    `issuing` is nothing where another authorization server issues the tokens; `client_metadata` is
    how the gateway describes itself to the authorization servers of upstreams.
    """

    async def protected_resource(request: Request) -> Response:
        path = request.scope["path"].removeprefix(PROTECTED_RESOURCE_PATH)
        return _document(metadata.protected_resource(path))

    async def authorization_server(_: Request) -> Response:
        return _document(metadata.authorization_server)

    async def our_own(_: Request) -> Response:
        return _document(client_metadata())

    routes = [
        _public(AUTHORIZATION_SERVER_PATH, authorization_server),
        _public(PROTECTED_RESOURCE_PATH, protected_resource),
        _public(PROTECTED_RESOURCE_PATH + "/mcp", protected_resource),
        _public(PROTECTED_RESOURCE_PATH + "/mcp/{server}", protected_resource),
        _public(PROTECTED_RESOURCE_PATH + ADMIN_API, protected_resource),
        _public(CLIENT_METADATA_PATH, our_own),
    ]
    return routes if issuing is None else [*routes, *_issuing_routes(issuing, client_address)]


def _issuing_routes(
    issuing: IssuingEndpoints, client_address: Callable[[Scope], str]
) -> list[Route]:
    async def jwks(_: Request) -> Response:
        return _document(issuing.jwks())

    def posted(
        answer: Answering, kind: str, most_bytes: int, missed: Missed | None = None
    ) -> Handler:
        async def handler(request: Request) -> Response:
            async def answered(asked: TokenRequest) -> TokenAnswer:
                given = await answer(asked)
                if missed is not None and given.used and await request.is_disconnected():
                    await missed(given)
                return given

            source_ip = client_address(request.scope)
            return await _post(request, answered, kind, most_bytes, source_ip)

        return handler

    token = posted(issuing.token.answer, _FORM, LARGEST_FORM_BYTES, issuing.token.missed)
    revocation = posted(issuing.revocation.answer, _FORM, LARGEST_FORM_BYTES)
    registration = posted(issuing.registration.answer, _JSON, LARGEST_METADATA_BYTES)
    device = posted(issuing.device.begin, _FORM, LARGEST_FORM_BYTES)
    return [
        _public(JWKS_PATH, jwks),
        _public(TOKEN_PATH, token, method="POST"),
        _public(REVOKE_PATH, revocation, method="POST"),
        _public(REGISTER_PATH, registration, method="POST"),
        # What begins there has no browser (RFC 8628 section 1): no page has to be let in.
        Route(DEVICE_PATH, device, methods=["POST"]),
    ]


def _public(path: str, handler: Handler, *, method: str = "GET") -> Route:
    """Return a route that pages of other origins may use, too (Fetch section 3.3)."""
    preflight = {
        **_ANYWHERE,
        "access-control-allow-methods": f"{method}, OPTIONS",
        # Clients of MCP send the version along with discovery requests.
        "access-control-allow-headers": "authorization, content-type, dpop, mcp-protocol-version",
        "access-control-max-age": "600",
    }

    async def endpoint(request: Request) -> Response:
        if request.method == "OPTIONS":
            return Response(status_code=204, headers=preflight)
        answer = await handler(request)
        answer.headers.update(_ANYWHERE)
        return answer

    return Route(path, endpoint, methods=[method, "OPTIONS"])


async def _post(
    request: Request, answer: Answering, kind: str, most_bytes: int, source_ip: str
) -> Response:
    # Refused before it is read, and therefore counted only: nobody has claimed anything yet.
    kinds = request.headers.getlist("content-type")
    if len(kinds) != 1 or kinds[0].partition(";")[0].strip().lower() != kind:
        return _unread(request, "encoding", _refusal(415, f"send {kind}"))
    if "content-encoding" in request.headers:
        return _unread(request, "encoding", _refusal(415, "send it unencoded"))
    try:
        body = await _read(request, most_bytes)
    except ClientDisconnect:
        return _refusal(400, "the request is cut short")
    if body is None:
        return _unread(request, "too_large", _refusal(413, "the request is too large"))
    given = await answer(
        TokenRequest(
            body=body,
            authorization=tuple(request.headers.getlist("authorization")),
            proofs=tuple(request.headers.getlist("dpop")),
            query=request.scope["query_string"],
            source_ip=source_ip,
        )
    )
    return _json(given.body, status=given.status, headers=dict(given.headers))


def _unread(request: Request, code: str, answer: Response) -> Response:
    request.scope[UNREAD] = code
    return answer


async def _read(request: Request, most_bytes: int) -> bytes | None:
    """Return the body, or nothing once it has grown beyond the limit."""
    body = bytearray()
    async for chunk in request.stream():
        body += chunk
        if len(body) > most_bytes:
            return None
    return bytes(body)


def _document(content: Mapping[str, Any] | None) -> Response:
    if content is None:
        return _json(_NOT_FOUND, status=404, headers={"cache-control": "no-store"})
    return _json(content, status=200, headers={"cache-control": "public, max-age=300"})


def _refusal(status: int, description: str) -> Response:
    return _json(
        {"error": "invalid_request", "error_description": description},
        status=status,
        headers={"cache-control": "no-store"},
    )


def _json(content: Mapping[str, Any], *, status: int, headers: Mapping[str, str]) -> Response:
    told = {**headers, "x-content-type-options": "nosniff"}
    return Response(orjson.dumps(content), status, headers=told, media_type=_JSON)
