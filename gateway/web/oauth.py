"""The OAuth routes: metadata, keys and the token endpoint over HTTP."""

from collections.abc import Awaitable, Callable, Mapping
from typing import Any

import orjson
from starlette.requests import ClientDisconnect, Request
from starlette.responses import Response
from starlette.routing import Route
from starlette.types import Scope

from gateway.oauth.metadata import (
    AUTHORIZATION_SERVER_PATH,
    AUTHORIZE_PATH,
    JWKS_PATH,
    PROTECTED_RESOURCE_PATH,
    TOKEN_PATH,
)
from gateway.oauth.server import AuthorizationServer
from gateway.oauth.token_endpoint import TokenRequest

LARGEST_FORM_BYTES = 64 * 1024

_FORM = "application/x-www-form-urlencoded"
_PUBLIC_HEADERS = {
    # Public documents: a client in a browser may read them from anywhere.
    "access-control-allow-origin": "*",
    "cache-control": "public, max-age=300",
}
_PREFLIGHT_HEADERS = {
    "access-control-allow-origin": "*",
    "access-control-allow-methods": "GET, HEAD, OPTIONS",
    # Clients of MCP send this one along with discovery requests.
    "access-control-allow-headers": "mcp-protocol-version",
    "access-control-max-age": "600",
}

Handler = Callable[[Request], Awaitable[Response]]


def oauth_routes(
    server: AuthorizationServer, client_address: Callable[[Scope], str]
) -> list[Route]:
    """Return the routes of `server`: they say what it says, and judge nothing themselves."""

    async def protected_resource(request: Request) -> Response:
        path = request.scope["path"].removeprefix(PROTECTED_RESOURCE_PATH)
        return _document(server.metadata.protected_resource(path))

    async def authorization_server(_: Request) -> Response:
        return _document(server.metadata.authorization_server)

    async def jwks(_: Request) -> Response:
        return _document(server.jwks)

    async def token(request: Request) -> Response:
        return await _token(server, request, client_address(request.scope))

    return [
        _public(AUTHORIZATION_SERVER_PATH, authorization_server),
        _public(PROTECTED_RESOURCE_PATH, protected_resource),
        _public(PROTECTED_RESOURCE_PATH + "/mcp", protected_resource),
        _public(PROTECTED_RESOURCE_PATH + "/mcp/{server}", protected_resource),
        _public(JWKS_PATH, jwks),
        Route(AUTHORIZE_PATH, _authorize, methods=["GET", "POST"]),
        Route(TOKEN_PATH, token, methods=["POST"]),
    ]


def _public(path: str, handler: Handler) -> Route:
    async def endpoint(request: Request) -> Response:
        if request.method == "OPTIONS":
            return Response(status_code=204, headers=_PREFLIGHT_HEADERS)
        return await handler(request)

    return Route(path, endpoint, methods=["GET", "OPTIONS"])


async def _authorize(_: Request) -> Response:
    # Nobody is redirected: no redirect URI is registered (RFC 6749 section 4.1.2.1).
    return _refusal(400, "no response type is supported", error="unsupported_response_type")


async def _token(server: AuthorizationServer, request: Request, source_ip: str) -> Response:
    # Refused before it is read, and therefore not recorded: nobody has claimed anything yet.
    kinds = request.headers.getlist("content-type")
    if len(kinds) != 1 or kinds[0].partition(";")[0].strip().lower() != _FORM:
        return _refusal(415, f"send {_FORM}")
    if "content-encoding" in request.headers:
        return _refusal(415, "send the form without a content encoding")
    try:
        body = await _read(request)
    except ClientDisconnect:
        return _refusal(400, "the form is cut short")
    if body is None:
        return _refusal(413, "the form is too large")
    answer = await server.token(
        TokenRequest(
            body=body,
            authorization=tuple(request.headers.getlist("authorization")),
            query=request.scope["query_string"],
            source_ip=source_ip,
        )
    )
    return _json(answer.body, status=answer.status, headers=dict(answer.headers))


async def _read(request: Request) -> bytes | None:
    """Return the body, or nothing once it has grown beyond the limit."""
    body = bytearray()
    async for chunk in request.stream():
        body += chunk
        if len(body) > LARGEST_FORM_BYTES:
            return None
    return bytes(body)


def _document(content: Mapping[str, Any] | None) -> Response:
    if content is None:
        return Response(status_code=404, headers={"access-control-allow-origin": "*"})
    return _json(content, status=200, headers=_PUBLIC_HEADERS)


def _refusal(status: int, description: str, *, error: str = "invalid_request") -> Response:
    return _json(
        {"error": error, "error_description": description},
        status=status,
        headers={"cache-control": "no-store"},
    )


def _json(content: Mapping[str, Any], *, status: int, headers: Mapping[str, str]) -> Response:
    return Response(orjson.dumps(content), status, headers=headers, media_type="application/json")
