"""MCP interceptors over HTTP, for registered hosts (SEP-2624, a draft). It holds no rule.

JSON-RPC by POST, each message with an answer of its own; there is no session and no stream.
"""

from collections.abc import Callable, Mapping
from functools import partial
from typing import Any, Final

from starlette.types import Receive, Scope, Send

from gateway.domain.calls import Form, Message
from gateway.domain.nodes import amount, weight
from gateway.domain.planes import InterceptorHost
from gateway.errors import GatewayError, ProtocolError, Unauthenticated
from gateway.pipeline.decision_point import DecisionPoint
from gateway.pipeline.interceptions import Interceptions
from gateway.pipeline.plane_records import Asking, asked_by
from gateway.turns import QUICK_NODES, finished, in_turn
from gateway.web.plane_requests import (
    Came,
    PlaneDoor,
    Told,
    is_json,
    on_record,
    read_body,
    status_of,
)
from gateway.wire import jsontext
from gateway.wire.eras import SELF
from gateway.wire.interceptors import (
    DECIDE,
    INVOKE,
    Invocation,
    capabilities,
    interceptors,
    mutation,
    read_asked,
    read_invocation,
    validation,
)
from gateway.wire.jsonrpc import INTERNAL_ERROR, INVALID_PARAMS, METHOD_NOT_FOUND
from gateway.wire.jsontext import WireLimits
from gateway.wire.revisions import REVISIONS

PATH: Final = "/interceptors"
_OWN: Final = frozenset({"initialize", "ping", "interceptors/list"})
"""What says nothing of anybody's call."""


class InterceptorEndpoint:
    def __init__(
        self,
        hosts: Mapping[str, InterceptorHost],
        intercepting: Interceptions,
        decisions: DecisionPoint,
        *,
        most_bytes: int,
        limits: WireLimits,
        client_address: Callable[[Scope], str],
        refused_unread: Callable[[str, str], None],
        new_id: Callable[[], str],
    ) -> None:
        self._intercepting = intercepting
        self._decisions = decisions
        self._most_bytes = most_bytes
        self._limits = limits
        self._door = PlaneDoor(
            client_address=client_address,
            by_key={host.plane.key_digest: host for host in hosts.values()},
            refused_unread=refused_unread,
            new_id=new_id,
        )

    def serves(self, path: str) -> bool:
        """Whether it is the one path of hosts."""
        return path == PATH

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer one message."""
        await self._door.answer(scope, receive, send, self._answered)

    async def _answered(
        self,
        scope: Scope,
        headers: Mapping[str, str],
        receive: Receive,
        came: Came,
    ) -> Told:
        if scope["method"] != "POST":
            return _told(405, "use POST")
        host: InterceptorHost | None = came.holder
        plane = None if host is None else host.plane
        refused = partial(on_record, self._decisions.refuse, came=came, plane=plane)
        try:
            known, message = await self._read(host, headers, receive)
        except GatewayError as error:
            no = await refused(error)
            return _told(status_of(no), _failed(None, no))
        if message.form is not Form.REQUEST:
            return Told(status=202, body=b"")
        asking = Asking(plane=known.plane, source_ip=came.address, request_id=came.request_id)
        try:
            result = await self._result(known, asking, message)
        except GatewayError as error:
            return _told(200, _failed(message.id, await refused(error)))
        content = {"jsonrpc": "2.0", "id": message.id, "result": result}
        nodes = amount(result, QUICK_NODES)
        return await finished(asked_by(known.plane), nodes, _told, 200, content)

    async def _read(
        self, host: InterceptorHost | None, headers: Mapping[str, str], receive: Receive
    ) -> tuple[InterceptorHost, Message]:
        """Return who asks, and the message.

        Raises:
            Unauthenticated: It is no registered host; nothing of its message was read.
            ProtocolError: It is no message.

        """
        if host is None:
            raise Unauthenticated("no registered host has this key")
        if not is_json(headers):
            raise ProtocolError("a message is application/json")
        body = await read_body(receive, self._most_bytes)
        who = asked_by(host.plane)
        return host, await in_turn(who, weight(body), read_asked, body, self._limits)

    async def _result(
        self, host: InterceptorHost, asking: Asking, message: Message
    ) -> Mapping[str, Any]:
        """Return what a request is answered with.

        Raises:
            ProtocolError: There is no such method, or nothing that could be looked at.
            GatewayError: Nobody knows, so that whoever asks has to refuse.

        """
        seen = _shown(message)
        if seen is not None:
            return await self._invoked(host, asking, seen)
        match message.method:
            case "initialize":
                said = message.params.get("protocolVersion")
                spoken = said if said in REVISIONS else REVISIONS[0]
                return {
                    "protocolVersion": spoken,
                    "capabilities": capabilities(),
                    "serverInfo": SELF,
                }
            case "ping":
                return {}
            case _:
                event = message.params.get("event")
                return interceptors(event if isinstance(event, str) else None)

    async def _invoked(
        self, host: InterceptorHost, asking: Asking, seen: Invocation
    ) -> Mapping[str, Any]:
        if seen.name == DECIDE:
            why = await self._intercepting.validated(host, asking, seen)
            return validation(seen.name, seen.phase, why)
        payload, modified = await self._intercepting.given(host, asking, seen)
        return mutation(seen.name, seen.phase, payload, modified=modified)


def _shown(message: Message) -> Invocation | None:
    """Return what a request has looked at; `None` if it asks about this endpoint itself.

    Raises:
        ProtocolError: There is no such method, or nothing that could be looked at.

    """
    if message.method == INVOKE:
        return read_invocation(message.params)
    if message.method not in _OWN:
        raise ProtocolError("there is no such method here", rpc_code=METHOD_NOT_FOUND)
    return None


def _failed(id_: str | int | None, error: GatewayError) -> Mapping[str, Any]:
    code = INTERNAL_ERROR
    if isinstance(error, ProtocolError):
        # What the decision point calls no question are params that say none.
        code = error.rpc_code if error.rpc_code != ProtocolError("").rpc_code else INVALID_PARAMS
    return {"jsonrpc": "2.0", "id": id_, "error": {"code": code, "message": error.public}}


def _told(status: int, content: Any) -> Told:
    return Told(status=status, body=jsontext.write(content).encode())
