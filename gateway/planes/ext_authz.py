"""Envoy's `ext_authz`: may this request go on? What comes back of it nobody here sees."""

from http import HTTPStatus
from typing import Final

import grpc

from gateway.domain.calls import Reply
from gateway.domain.planes import Plane, PlaneKind
from gateway.errors import GatewayError
from gateway.pipeline.plane_results import Pending
from gateway.pipeline.plane_traffic import Turned
from gateway.planes.doorman import Context, Doorman, Place, abort, address_of, only
from gateway.planes.http_calls import (
    Decided,
    HttpAsked,
    claims_in,
    decided,
    pairs_of,
    reply_of,
    set_headers,
    taken_out,
    unexpected,
)
from gateway.planes.in_force import InForce, Lease, in_time
from gateway.planes.structs import Unexpected
from gateway.planes.stubs import envoy_pb2 as pb
from gateway.wire.headers import SESSION

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
        self,
        _requests: object,
        context: Context,
    ) -> pb.CheckResponse:
        """Answer `envoy.service.auth.v3.Authorization/Check`."""
        async with self._doorman.let_in(context, self._lease, PlaneKind.EXT_AUTHZ) as place:
            request = await only(context, place)
            try:
                async with self._doorman.judging(context, self._lease, place) as force:
                    found = await in_time(
                        place.plane.deadline_s,
                        _decided(force, place, request, address_of(context)),
                    )
                    return _answer(force, place.plane, found, request)
            except GatewayError as error:
                # No answer is what Envoy takes for a no, unless it is told to fail open.
                await abort(context, grpc.StatusCode.UNAVAILABLE, error.public)


async def _decided(
    force: InForce, place: Place, request: pb.CheckRequest, source_ip: str
) -> Decided:
    try:
        asked = asked_in(request)
    except Unexpected as error:
        turned = await force.traffic.refuse(
            unexpected(error), source_ip=source_ip, request_id="", plane=place.plane
        )
        return Decided(outcome=turned)
    return await decided(force, place, asked, endpoint=f"/{SERVICE}/Check", source_ip=source_ip)


def asked_in(request: pb.CheckRequest) -> HttpAsked:
    """Return the request of a client that Envoy asks about.

    A body that Envoy has cut, or says nothing of, is none.

    Raises:
        Unexpected: Envoy does not show each header and each byte as it came, or shows one in two ways.

    """
    http = request.attributes.request.http
    if http.body:
        # As text: what is no UTF-8 was put otherwise.
        raise Unexpected("a body is not shown as it came; `pack_as_bytes` has to be true")
    if http.headers or not http.header_map.headers:
        # By name: of a header that stands twice nobody would know.
        raise Unexpected("not each header is shown; `encode_raw_headers` has to be true")
    headers = pairs_of(http.header_map)
    whole = [text for name, text in headers if name == _PARTIAL] == ["false"]
    return HttpAsked(
        method=http.method,
        path=http.path,
        headers=[pair for pair in headers if not pair[0].startswith(":") and pair[0] != _PARTIAL],
        body=http.raw_body if whole else b"",
        server=_server(request),
        claims=claims_in(request.attributes.metadata_context),
    )


def _server(request: pb.CheckRequest) -> str:
    return request.attributes.context_extensions.get(SERVER, "")


def _answer(
    force: InForce, plane: Plane, found: Decided, request: pb.CheckRequest
) -> pb.CheckResponse:
    if not isinstance(found.outcome, Turned):
        response = pb.CheckResponse(ok_response=_head(found.outcome, asked_in(request)))
        response.status.code = grpc.StatusCode.OK.value[0]
        response.dynamic_metadata.update({"decision": found.outcome.trail.decision_id})
        return response
    return _denied(reply_of(force, plane, found, found.outcome, _server(request)))


def _head(pending: Pending, asked: HttpAsked) -> pb.OkHttpResponse:
    """Return what makes of a request's head what was read of it; its session id stays as it is."""
    said = pending.sent.headers
    begins = pending.sent.message.method == "initialize"
    session = [] if begins else [pair for pair in asked.headers if pair[0] == SESSION]
    return pb.OkHttpResponse(
        headers=set_headers(said), headers_to_remove=taken_out(asked, [*said, *session])
    )


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
