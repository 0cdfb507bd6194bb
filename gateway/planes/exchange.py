"""One HTTP request and its answer on a stream of `ext_proc`: what Envoy may send, and give out."""

from collections.abc import Callable, Coroutine, Iterable
from contextlib import ExitStack
from dataclasses import replace
from http import HTTPStatus
from typing import Any, Final

from gateway.domain.calls import Form, Reply
from gateway.domain.planes import Plane
from gateway.errors import GatewayError, LimitExceeded, RateLimited
from gateway.pipeline.plane_results import Pending
from gateway.pipeline.plane_traffic import Turned
from gateway.planes.answers import Answer, answer_in, media_in, nodes_in
from gateway.planes.doorman import Place
from gateway.planes.http_calls import (
    Decided,
    HttpAsked,
    Pairs,
    claims_in,
    decided,
    pairs_of,
    raw_headers,
    reply_of,
    taken_out,
)
from gateway.planes.in_force import InForce, in_time, never_given
from gateway.planes.structs import Unexpected, dict_of
from gateway.planes.stubs import envoy_pb2 as pb
from gateway.turns import finished
from gateway.wire.returning import returned_status

ATTRIBUTES: Final = "envoy.filters.http.ext_proc"
ROUTE: Final = "xds.route_name"
"""The attribute that says whose tools a request is for: its route has the name of the server."""
_SESSION: Final = "mcp-session-id"
_STATUS: Final = ":status"
_RESPONSE_HEADERS: Final = frozenset({"content-length", "transfer-encoding", "date", "server"})
_ERRORS: Final = 400
_BROKEN: Final = 500


class Exchange:
    def __init__(self, place: Place, *, endpoint: str, source_ip: str) -> None:
        self._place = place
        self._endpoint = endpoint
        self._source_ip = source_ip
        self._force: InForce
        """By which the part that came last is judged."""
        self._next: Callable[[pb.ProcessingRequest], Coroutine[Any, Any, pb.ProcessingResponse]]
        self._next = self._request_headers
        self._awaited = "request_headers"
        self._asked = HttpAsked(method="", path="", headers=(), body=b"", server="", claims={})
        self._decided: Decided | None = None
        self._pending: Pending | None = None
        self._status = 0
        self._answered: Pairs = ()
        self.is_over = False
        """Whether all that Envoy waits for has been said."""

    @property
    def _plane(self) -> Plane:
        return self._place.plane

    @property
    def awaits_request(self) -> bool:
        """Whether something of what the client sends is still to come."""
        return not self.is_over and self._awaited.startswith("request_")

    async def answered(
        self, force: InForce, request: pb.ProcessingRequest
    ) -> pb.ProcessingResponse:
        """Return what Envoy does about what has come, by what is in `force` now.

        Raises:
            Unexpected: It is not what comes next.
            GatewayError: Nobody knows.

        """
        self._force = force
        came = request.WhichOneof("request")
        if request.observability_mode:
            raise Unexpected("with `observability_mode` no answer counts; take it out")
        if came == "response_headers" and self._pending is None and not self.is_over:
            return self._of_its_own(pairs_of(request.response_headers.headers))
        if self.is_over or came != self._awaited:
            raise Unexpected(f"{came} came where {self._awaited} was to come")
        late = self._taken_back if self._pending is None else _nothing
        return await in_time(self._plane.deadline_s, self._next(request), late)

    async def refuse(self, force: InForce, error: GatewayError) -> None:
        """Put on record what ended the exchange.

        Raises:
            AuditUnavailable: It is not on record.

        """
        await force.traffic.refuse(
            error,
            source_ip=self._source_ip,
            request_id=self._asked.request_id,
            plane=self._plane,
        )

    def broken(self, error: GatewayError) -> pb.ProcessingResponse:
        """Return the end of a request that nobody could judge."""
        self.is_over = True
        return _immediate(Reply(status=_BROKEN, headers=(), body=error.public.encode()))

    def _of_its_own(self, pairs: Pairs) -> pb.ProcessingResponse:
        """Return the no that Envoy itself answers with, before anything was sent: its status alone.

        Raises:
            Unexpected: It is no no, and whatever it is, nobody asked about it.

        """
        status = _status_in(pairs)
        if status < _ERRORS:
            raise Unexpected("an answer came to what was not sent")
        self.is_over = True
        told = tuple(pair for pair in pairs if pair[0] == "www-authenticate")
        return _immediate(Reply(status=status, headers=told, body=b""))

    def left(self, force: InForce) -> Coroutine[Any, Any, Turned] | None:
        """Return what ends on record a message of the protocol's that got no answer.

        A call stays owed: who says that what came of it was given to nobody?
        """
        pending, self._pending = self._pending, None
        if pending is None or pending.permit.access is not None:
            return None
        return force.traffic.fail(self._plane, pending, "the plane has given up")

    def _taken_back(self, _: pb.ProcessingResponse) -> Coroutine[Any, Any, Turned] | None:
        """Return what ends a yes that Envoy was not given."""
        pending, self._pending = self._pending, None
        if pending is None:
            return None
        return self._force.traffic.withdraw(self._plane, pending, never_given())

    def _then(self, awaited: str) -> None:
        self._awaited = awaited
        self._next = {
            "request_body": self._request_body,
            "response_headers": self._response_headers,
            "response_body": self._response_body,
        }[awaited]

    async def _request_headers(self, request: pb.ProcessingRequest) -> pb.ProcessingResponse:
        _require_whole_bodies(request)
        pairs = pairs_of(request.request_headers.headers)
        methods = [text for name, text in pairs if name == ":method"]
        paths = [text for name, text in pairs if name == ":path"]
        attributes = request.attributes
        known = dict_of(attributes[ATTRIBUTES]) if ATTRIBUTES in attributes else {}
        route = known.get(ROUTE)
        self._asked = HttpAsked(
            method=methods[0] if len(methods) == 1 else "",
            path="?".join(paths),
            headers=[pair for pair in pairs if not pair[0].startswith(":")],
            body=b"",
            server=route if isinstance(route, str) else "",
            claims=claims_in(request.metadata_context),
        )
        is_whole = request.request_headers.end_of_stream or self._asked.method != "POST"
        if is_whole or not self._has_its_callers_place():
            return await self._judged(b"")
        self._then("request_body")
        return pb.ProcessingResponse(
            request_headers=pb.HeadersResponse(response=pb.CommonResponse())
        )

    def _has_its_callers_place(self) -> bool:
        """Count the place as its caller's while their body is on its way; whether they may have it."""
        try:
            self._place.take_for(self._asked.whose(self._plane))
        except RateLimited:
            return False
        return True

    async def _request_body(self, request: pb.ProcessingRequest) -> pb.ProcessingResponse:
        if not request.request_body.end_of_stream:
            raise Unexpected("the body of a request is cut; `request_body_mode` has to be BUFFERED")
        return await self._judged(request.request_body.body)

    async def _judged(self, body: bytes) -> pb.ProcessingResponse:
        """Return what Envoy sends of a request, or the no to it."""
        self._asked = replace(self._asked, body=body)
        self._decided = await decided(
            self._force,
            self._place,
            self._asked,
            endpoint=self._endpoint,
            source_ip=self._source_ip,
        )
        self._asked = replace(self._asked, body=b"")  # it is kept with its call, or not at all
        outcome = self._decided.outcome
        if isinstance(outcome, Turned):
            return self._refused(outcome)
        self._pending = outcome
        self._then("response_headers")
        going = outcome.sent.message.body
        sent = pb.CommonResponse(header_mutation=self._head(outcome))
        if going != body:
            sent.MergeFrom(_body(going))
        return pb.ProcessingResponse(request_body=pb.BodyResponse(response=sent))

    def _head(self, pending: Pending) -> pb.HeaderMutation:
        """Return what makes of a request's head what was read of it.

        A session is the server's to begin: its own id stands in place of the one that was given out.
        """
        said, session = list(pending.sent.headers), pending.permit.session
        if session is not None:
            said.append((_SESSION, session))
        return pb.HeaderMutation(
            set_headers=raw_headers(said), remove_headers=taken_out(self._asked, said)
        )

    async def _response_headers(self, request: pb.ProcessingRequest) -> pb.ProcessingResponse:
        self._answered = pairs_of(request.response_headers.headers)
        self._status = _status_in(self._answered)
        if request.response_headers.end_of_stream:
            return await self._without_body()
        self._then("response_body")
        return pb.ProcessingResponse(
            response_headers=pb.HeadersResponse(
                response=pb.CommonResponse(header_mutation=self._given_head())
            )
        )

    async def _without_body(self) -> pb.ProcessingResponse:
        if not self._is_notice():
            return await self._failed("it has no body")
        if (turned := await self._taken()) is not None:
            return self._refused(turned)
        self.is_over = True
        head = pb.CommonResponse(header_mutation=self._given_head())
        return pb.ProcessingResponse(response_headers=pb.HeadersResponse(response=head))

    async def _response_body(self, request: pb.ProcessingRequest) -> pb.ProcessingResponse:
        if not request.response_body.end_of_stream:
            raise Unexpected(
                "the body of an answer is cut; `response_body_mode` has to be BUFFERED"
            )
        if self._is_notice():
            if (turned := await self._taken()) is not None:
                return self._refused(turned)
            return self._given(b"")
        return await self._given_out(request.response_body.body)

    async def _given_out(self, body: bytes) -> pb.ProcessingResponse:
        """Return what Envoy gives out of the answer to a request."""
        pending = self._require_pending()
        if dict(self._answered).get("content-encoding", "identity") != "identity":
            return await self._failed("it is compressed")
        with ExitStack() as held:
            try:
                held.enter_context(self._place.holding(self._place.rooms.answers, body))
                answer = await self._answer_in(pending, body)
            except RateLimited as error:
                return await self._failed(error)
            except LimitExceeded as error:
                return await self._failed(error.public)
            if answer is None:
                return await self._failed("it is no answer to this request")
            given = await self._force.traffic.give(self._plane, pending, answer.body, self._status)
        if isinstance(given, Turned):
            return self._refused(given)
        return self._given(answer.framed(given))

    async def _answer_in(self, pending: Pending, body: bytes) -> Answer | None:
        asked, who = pending.sent.message, pending.permit.principal.person
        media = dict(self._answered).get("content-type", "")
        nodes, limits = nodes_in(media, body), self._force.limits
        return await finished(who, nodes, answer_in, asked, media, body, limits)

    def _given(self, body: bytes) -> pb.ProcessingResponse:
        self._pending = None
        self.is_over = True
        return pb.ProcessingResponse(response_body=pb.BodyResponse(response=_body(body)))

    async def _failed(self, why: str | RateLimited) -> pb.ProcessingResponse:
        pending = self._require_pending()
        turned = await self._force.traffic.fail(self._plane, pending, why, self._status or None)
        refused = self._refused(turned)
        if self._status == HTTPStatus.NOT_FOUND and self._asked.header(_SESSION):
            # Only so does a client learn that its session has ended.
            refused.immediate_response.status.code = HTTPStatus.NOT_FOUND
        return refused

    def _is_notice(self) -> bool:
        """Whether there is nothing to answer, and nothing was refused."""
        is_notice = self._require_pending().permit.call.message.form is not Form.REQUEST
        return is_notice and self._status < _ERRORS

    async def _taken(self) -> Turned | None:
        return await self._force.traffic.took(self._require_pending(), self._status)

    def _require_pending(self) -> Pending:
        if self._pending is None:
            raise Unexpected("an answer came to what was not sent")
        return self._pending

    def _refused(self, turned: Turned) -> pb.ProcessingResponse:
        self._pending = None
        self.is_over = True
        decided_ = self._decided or Decided(outcome=turned)
        return _immediate(reply_of(self._force, self._plane, decided_, turned, self._asked.server))

    def _given_head(self) -> pb.HeaderMutation:
        """Return what makes of an answer's head what its caller may see; a session id is sealed."""
        told = [text for name, text in self._answered if name == _SESSION]
        sealed = self._sealed(told[0]) if len(told) == 1 else None
        given = [] if sealed is None else [(_SESSION, sealed)]
        if media := media_in(dict(self._answered).get("content-type", "")):
            # The one that it is read as: of two a client might take the other.
            given.append(("content-type", media))
        gone = _others(self._answered, _RESPONSE_HEADERS | {name for name, _ in given})
        status = returned_status(self._status, empty=self._is_notice())
        if status != self._status:
            given.append((_STATUS, str(status)))
        return pb.HeaderMutation(set_headers=raw_headers(given), remove_headers=gone)

    def _sealed(self, session: str) -> str | None:
        return self._force.traffic.sealed(self._require_pending(), session)


def _nothing(_: pb.ProcessingResponse) -> None:
    """Do nothing: what came of a result is on record, whoever waits for it."""


def _body(body: bytes) -> pb.CommonResponse:
    """Return what puts `body` in the place of what came; Envoy wants its length said."""
    length = ("content-length", str(len(body)))
    return pb.CommonResponse(
        header_mutation=pb.HeaderMutation(set_headers=raw_headers([length])),
        body_mutation=pb.BodyMutation(body=body) if body else pb.BodyMutation(clear_body=True),
    )


def _require_whole_bodies(request: pb.ProcessingRequest) -> None:
    """Return if Envoy shows bodies whole, both ways.

    Raises:
        Unexpected: It does not, or does not say.

    """
    modes = request.protocol_config
    whole = pb.BodySendMode.BUFFERED
    if not modes.request_body_mode == modes.response_body_mode == whole:
        raise Unexpected("`request_body_mode` and `response_body_mode` have to be BUFFERED")


def _status_in(pairs: Pairs) -> int:
    told = [text for name, text in pairs if name == _STATUS]
    if len(told) != 1 or not (told[0].isascii() and told[0].isdigit()):
        raise Unexpected("an answer has no status")
    return int(told[0])


def _others(pairs: Pairs, kept: Iterable[str]) -> list[str]:
    return sorted({name for name, _ in pairs if name not in kept and not name.startswith(":")})


def _immediate(reply: Reply) -> pb.ProcessingResponse:
    body = reply.body if isinstance(reply.body, bytes) else b""
    return pb.ProcessingResponse(
        immediate_response=pb.ImmediateResponse(
            status=pb.HttpStatus(code=reply.status),
            headers=pb.HeaderMutation(set_headers=raw_headers(reply.headers)),
            body=body,
        )
    )
