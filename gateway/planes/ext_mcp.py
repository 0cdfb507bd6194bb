"""agentgateway's `ExtMcp`: a call before it goes out, and its result before that is given out.

The second question names neither the call nor its caller. What the first was answered with comes back
with it, if the plane is told to send it; without that it is a no.
"""

import asyncio
from collections.abc import Callable, Coroutine, Mapping, Sequence
from contextlib import ExitStack
from functools import partial
from typing import Any, Final

from google.protobuf.struct_pb2 import Struct

from gateway.domain.calls import Form, Message
from gateway.domain.nodes import amount, weight
from gateway.domain.planes import Plane, PlaneKind
from gateway.domain.tools import Profile
from gateway.errors import Fault, GatewayError, ProtocolError, RateLimited
from gateway.pipeline.plane_answers import cannot
from gateway.pipeline.plane_records import Asking, said_by
from gateway.pipeline.plane_results import Pending
from gateway.pipeline.plane_traffic import Shown, Turned
from gateway.planes.doorman import Context, Doorman, Place, address_of, only
from gateway.planes.http_calls import request_id_in, unexpected
from gateway.planes.in_force import InForce, Lease, beside, in_time, never_given
from gateway.planes.structs import Unexpected, dict_of, require_few
from gateway.planes.stubs import ext_mcp_pb2 as pb
from gateway.planes.waiting import Asked, Waiting
from gateway.turns import QUICK_NODES, finished, in_turn
from gateway.wire import jsontext
from gateway.wire.eras import is_stateless
from gateway.wire.headers import VERSION
from gateway.wire.inbound import MODERN_VERSION_KEY, meta_of
from gateway.wire.jsonrpc import INVALID_PARAMS, read_message
from gateway.wire.jsontext import WireLimits
from gateway.wire.operations import judge
from gateway.wire.replies import REFUSAL_KEY, refusal_body
from gateway.wire.rev_handshake import ASSUMED
from gateway.wire.revisions import REVISIONS

SERVICE: Final = "agentgateway.dev.ext_mcp.ExtMcp"
DECISION: Final = "decision"
"""The key under which an answer's token comes back."""
CLAIMS: Final = "claims"
"""The key under which all that a token says is told."""
_RPC_ID: Final = 1


class ExtMcp:
    def __init__(self, lease: Lease, doorman: Doorman, new_token: Callable[[], str]) -> None:
        self._lease = lease
        self._doorman = doorman
        self._waiting = Waiting(new_token)

    async def check_request(
        self,
        _requests: object,
        context: Context,
    ) -> pb.McpRequestResult:
        """Answer `agentgateway.dev.ext_mcp.ExtMcp/CheckRequest`."""
        async with self._doorman.let_in(context, self._lease, PlaneKind.EXT_MCP) as place:
            request = await only(context, place)
            try:
                async with self._doorman.judging(context, self._lease, place) as force:
                    outcome = await in_time(
                        place.plane.deadline_s,
                        self._admitted(force, place, request, address_of(context)),
                        partial(_taken_back, force, place.plane),
                    )
                    if isinstance(outcome, Turned):
                        return pb.McpRequestResult(error=_error(outcome.error, outcome.decision_id))
                    return await self._allowed(force, place, request, outcome)
            except GatewayError as error:
                return pb.McpRequestResult(error=_error(error, ""))

    async def check_response(
        self,
        _responses: object,
        context: Context,
    ) -> pb.McpResponseResult:
        """Answer `agentgateway.dev.ext_mcp.ExtMcp/CheckResponse`."""
        async with self._doorman.let_in(context, self._lease, PlaneKind.EXT_MCP) as place:
            response = await only(context, place)
            try:
                async with self._doorman.judging(context, self._lease, place) as force:
                    outcome = await in_time(
                        place.plane.deadline_s,
                        self._given(force, place, response, address_of(context)),
                    )
            except GatewayError as error:
                return pb.McpResponseResult(error=_error(error, ""))
            if isinstance(outcome, Turned):
                return pb.McpResponseResult(error=_error(outcome.error, outcome.decision_id))
            return pb.McpResponseResult(mutated=outcome)

    async def _admitted(
        self, force: InForce, place: Place, request: pb.McpRequest, source_ip: str
    ) -> Pending | Turned:
        plane = place.plane
        try:
            require_few(request.headers)
            told = dict_of(request.metadata_context)
        except Unexpected as error:
            return await force.traffic.refuse(
                unexpected(error), source_ip=source_ip, request_id="", plane=plane
            )
        headers = [(one.key.lower(), one.value.decode("latin-1")) for one in request.headers]
        request_id = request_id_in(headers)
        # One by one they say nothing of those that are missing: not forwarded, or not there.
        whole = told.get(CLAIMS)
        claims = whole if isinstance(whole, dict) else told
        who = said_by(plane, claims.get("iss"), claims.get("sub"))
        self._forget_over(force, plane)
        with ExitStack() as held:
            try:
                place.take_for(who)
                held.enter_context(place.holding(place.rooms.requests, request.mcp_request))
                self._waiting.require_room(plane, who)
                params = request.mcp_request if request.HasField("mcp_request") else b"{}"
                message, revision, profile = await in_turn(
                    who,
                    weight(params),
                    _read,
                    request.method,
                    params,
                    [text for name, text in headers if name == VERSION],
                    force.limits,
                )
            except GatewayError as error:
                return await force.traffic.refuse(
                    error, source_ip=source_ip, request_id=request_id, plane=plane
                )
            asking = Asking(plane=plane, source_ip=source_ip, request_id=request_id)
            shown = Shown(
                endpoint=f"/{SERVICE}/CheckRequest",
                # One that is merged of several servers' is none that anybody approved.
                server=request.service_names[0] if len(request.service_names) == 1 else "",
                claims=claims,
                are_whole=claims is whole,
                message=message,
                revision=revision,
                profile=profile,
            )
            return await force.traffic.admit(asking, shown)

    async def _allowed(
        self, force: InForce, place: Place, request: pb.McpRequest, pending: Pending
    ) -> pb.McpRequestResult:
        plane = place.plane
        now = asyncio.get_running_loop().time()
        asked = request.service_names[0], request.method
        try:
            token = self._waiting.keep(plane, place.whose, asked, pending, now)
        except RateLimited as error:
            turned = await force.traffic.withdraw(plane, pending, error)
            return pb.McpRequestResult(error=_error(turned.error, turned.decision_id))
        result = pb.McpRequestResult()
        if request.HasField("mcp_request"):
            # What was decided on is what is sent.
            who, params = pending.permit.principal.person, pending.sent.message.params
            nodes = amount(params, QUICK_NODES)
            result.mutated = await finished(who, nodes, _params_of, params)
        else:
            getattr(result, "pass").SetInParent()
        result.metadata.update({DECISION: token})
        return result

    def _forget_over(self, force: InForce, plane: Plane) -> None:
        for late in self._waiting.over(asyncio.get_running_loop().time()):
            if late.permit.access is None:  # a call stays owed, and is ended as such
                beside(force.traffic.fail(plane, late, "the plane has not told"))

    async def _given(
        self, force: InForce, place: Place, response: pb.McpResponse, source_ip: str
    ) -> bytes | Turned:
        """Return the result that may be given out, or a no."""
        plane = place.plane
        token = _token_in(response.metadata_context)
        asked = Asked(
            token=token,
            services=tuple(response.service_names),
            method=response.method,
        )
        found = self._waiting.take(plane, asked)
        if found is None:
            error = cannot("plane_bypassed", "this plane was allowed no such call")
            return await force.traffic.refuse(
                error, source_ip=source_ip, request_id="", plane=plane
            )
        whose, pending = found
        who = pending.permit.principal.person
        with ExitStack() as held:
            try:
                # The place is that of whoever the call was let in for: a result does not say whose it is.
                place.take_for(whose)
                held.enter_context(place.holding(place.rooms.answers, response.mcp_response))
                body = await in_turn(
                    who,
                    weight(response.mcp_response),
                    _as_answered,
                    response.mcp_response,
                    force.limits,
                )
            except ValueError:
                return await force.traffic.fail(plane, pending, "it is no JSON")
            except RateLimited as error:
                return await force.traffic.fail(plane, pending, error)
            given = await force.traffic.give(plane, pending, body)
            if isinstance(given, Turned):
                return given
            return await finished(who, weight(given), _result_in, given, force.limits)


def _token_in(metadata: Struct) -> str:
    """Return the token that comes back with an answer; empty where there is none."""
    try:
        token = dict_of(metadata).get(DECISION)
    except Unexpected:
        return ""
    return token if isinstance(token, str) else ""


def _taken_back(
    force: InForce, plane: Plane, outcome: Pending | Turned
) -> Coroutine[Any, Any, Turned] | None:
    """Return what ends a yes that nobody was given."""
    if isinstance(outcome, Turned):
        return None
    return force.traffic.withdraw(plane, outcome, never_given())


def _read(
    method: str, params: bytes, versions: Sequence[str], limits: WireLimits
) -> tuple[Message, str, Profile]:
    """Return the request that a plane shows in parts, read as our own listener reads one.

    Raises:
        ProtocolError: It is none, or of no revision that there is, or of two.

    """
    try:
        content = jsontext.read_exact(params, limits.json_depth)
    except ValueError as error:
        raise ProtocolError(f"Parse error: {error}", rpc_code=INVALID_PARAMS) from error
    whole = {"jsonrpc": "2.0", "id": _RPC_ID, "method": method, "params": content}
    message = read_message(jsontext.write(whole).encode(), limits)
    revision = versions[0] if versions else ASSUMED
    if len(versions) > 1 or revision not in REVISIONS:
        raise ProtocolError("Unsupported protocol version")
    profile = Profile.MODERN if is_stateless(revision) else Profile.LEGACY
    said = revision if profile is Profile.MODERN else None
    if meta_of(message).get(MODERN_VERSION_KEY, said) != said:
        raise ProtocolError(f"{VERSION} header does not match the body's protocol version")
    if message.form is Form.REQUEST:
        judge(message, profile)
    return message, revision, profile


def _params_of(params: Mapping[str, Any]) -> bytes:
    return jsontext.write(params).encode()


def _as_answered(result: bytes, limits: WireLimits) -> bytes:
    """Return the message that its server will have sent of a `result` that a plane shows.

    Raises:
        ValueError: It is no JSON.

    """
    content = jsontext.read_lenient(result, limits.json_depth)
    return jsontext.write({"jsonrpc": "2.0", "id": _RPC_ID, "result": content}).encode()


def _result_in(given: bytes, limits: WireLimits) -> bytes:
    """Return the result of the message that may be given out.

    Raises:
        Fault: It is none, which such a plane cannot give out.

    """
    content: Mapping[str, Any] = jsontext.read_lenient(given, limits.json_depth)
    if "result" not in content:
        raise Fault("the gateway failed")
    return jsontext.write(content["result"]).encode()


def _error(error: GatewayError, decision_id: str) -> pb.AuthorizationError:
    """Return the no in the plane's words; what our listener says besides is in its data."""
    told = jsontext.read_lenient(
        refusal_body(error, None, Profile.LEGACY, decision_id=decision_id or None), 1 << 10
    )
    reasons = [message for _, message in error.reasons]
    found = pb.AuthorizationError(code=_code(error), reason=" ".join([error.public, *reasons]))
    data = told["error"].get("data")
    if data is not None:
        found.mcp_error = jsontext.write({REFUSAL_KEY: data}).encode()
    return found


def _code(error: GatewayError) -> "pb.AuthorizationError.Code":
    match error:
        case RateLimited():
            return pb.AuthorizationError.RESOURCE_EXHAUSTED
        case ProtocolError():
            return pb.AuthorizationError.INVALID
        case Fault():
            return pb.AuthorizationError.UNKNOWN
        case _:
            return pb.AuthorizationError.PERMISSION_DENIED
