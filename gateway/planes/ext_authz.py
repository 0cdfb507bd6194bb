"""Envoy's `ext_authz`: may this request go on? What comes back of it nobody here sees."""

from collections.abc import AsyncIterator
from http import HTTPStatus
from typing import Final

import grpc

from gateway.domain.calls import Reply
from gateway.domain.planes import Plane, PlaneKind
from gateway.errors import GatewayError
from gateway.pipeline.plane_traffic import Turned
from gateway.planes.doorman import Context, Doorman, abort, address_of, only
from gateway.planes.http_calls import (
    Decided,
    HttpAsked,
    claims_in,
    decided,
    pairs_of,
    reply_of,
    set_headers,
)
from gateway.planes.in_force import InForce, Lease, in_time
from gateway.planes.stubs import envoy_pb2 as pb

SERVICE: Final = "envoy.service.auth.v3.Authorization"
SERVER: Final = "server"
"""The context extension that says, of each route, whose tools are behind it."""
_PARTIAL: Final = "x-envoy-auth-partial-body"
"""What Envoy says of a body that it has cut."""


class ExtAuthz:
    def __init__(self, lease: Lease, doorman: Doorman) -> None:
        self._lease = lease
        self._doorman = doorman

    async def check(
        self, requests: AsyncIterator[pb.CheckRequest], context: Context
    ) -> pb.CheckResponse:
        """Answer `envoy.service.auth.v3.Authorization/Check`."""
        with self._lease() as force:
            async with self._doorman.let_in(context, force, PlaneKind.EXT_AUTHZ) as plane:
                asked = asked_in(await only(requests, context))
                try:
                    found = await in_time(
                        plane.deadline_s,
                        decided(
                            force,
                            plane,
                            asked,
                            endpoint=f"/{SERVICE}/Check",
                            source_ip=address_of(context),
                        ),
                    )
                except GatewayError as error:
                    # No answer is what Envoy takes for a no, unless it is told to fail open.
                    await abort(context, grpc.StatusCode.UNAVAILABLE, error.public)
                return _answer(force, plane, found, asked.server)


def asked_in(request: pb.CheckRequest) -> HttpAsked:
    """Return the request of a client that Envoy asks about.

    A body that Envoy has cut, or says nothing of, is none.
    """
    attributes = request.attributes
    http = attributes.request.http
    headers = pairs_of(http.header_map) or [(k.lower(), v) for k, v in http.headers.items()]
    whole = [text for name, text in headers if name == _PARTIAL] == ["false"]
    body = http.raw_body or http.body.encode()
    return HttpAsked(
        method=http.method,
        path=http.path,
        headers=[pair for pair in headers if not pair[0].startswith(":") and pair[0] != _PARTIAL],
        body=body if whole else b"",
        server=attributes.context_extensions.get(SERVER, ""),
        claims=claims_in(attributes.metadata_context),
    )


def _answer(force: InForce, plane: Plane, found: Decided, server: str) -> pb.CheckResponse:
    if not isinstance(found.outcome, Turned):
        response = pb.CheckResponse(ok_response=pb.OkHttpResponse())
        response.status.code = grpc.StatusCode.OK.value[0]
        response.dynamic_metadata.update({"decision": found.outcome.trail.decision_id})
        return response
    return _denied(reply_of(force, plane, found, found.outcome, server))


def _denied(reply: Reply) -> pb.CheckResponse:
    body = reply.body if isinstance(reply.body, bytes) else b""
    response = pb.CheckResponse(
        denied_response=pb.DeniedHttpResponse(
            status=pb.HttpStatus(code=HTTPStatus(reply.status)),
            headers=set_headers(reply.headers),
            body=body.decode(),
        )
    )
    response.status.code = grpc.StatusCode.PERMISSION_DENIED.value[0]
    return response
