"""The way back: what one server answered, in the words of the client in front of all of them."""

from collections.abc import AsyncGenerator, Iterator, Mapping
from contextlib import aclosing
from dataclasses import replace
from http import HTTPStatus
from typing import Any, Final

from gateway.builtin.names import public_uri
from gateway.domain._value import value
from gateway.domain.calls import Form, Reply, ServerEvent
from gateway.domain.nodes import weight
from gateway.domain.tools import Profile, UpstreamId
from gateway.turns import finished
from gateway.wire.eras import error_for, result_for
from gateway.wire.jsontext import WireLimits
from gateway.wire.operations import TASKS_GET
from gateway.wire.server_message import ServerMessage, read_server_message, with_member
from gateway.wire.sse import data_event, events_of, retry_s

_PASSED: Final = frozenset(
    {"notifications/progress", "notifications/message", "notifications/elicitation/complete"}
)
"""Of what a server says beside its answer; of changes of lists we said that we tell nothing."""
_POINTS: Final = b'"resource'
"""Stands in every content that has a resource's URI in it, unless in escapes."""
_NAMING: Final = frozenset({"resources/read", "resources/list"})
_NEEDS_INPUT: Final = "input_required"


@value
class Homeward:
    """How the answers to one call are told to its client."""

    server: UpstreamId
    method: str
    upstream: Profile
    client: Profile
    logs: bool
    """Whether the client wants to hear what the server logs."""
    limits: WireLimits
    who: str
    """Whose turn it takes where there is much to read."""
    comes_back: bool = False
    """Whether its client can ask for the rest of a stream that ends."""

    async def reply(self, reply: Reply) -> Reply:
        """Return `reply` as the client gets it."""
        if not isinstance(reply.body, bytes):
            return replace(reply, body=self._streamed(reply.body))
        if self._is_the_same(reply.body):
            return reply
        body = await finished(self.who, weight(reply.body), self._whole, reply.body)
        # A status with which an upstream of the other family says more than its body does.
        is_theirs = reply.code is None and self.upstream is not self.client
        return replace(reply, status=HTTPStatus.OK if is_theirs else reply.status, body=body)

    def _is_the_same(self, body: bytes) -> bool:
        if not body:
            return True
        names_uris = self.method in _NAMING or _POINTS in body or b"\\u" in body
        return self.upstream is self.client and not names_uris

    async def _streamed(self, parts: AsyncGenerator[bytes, None]) -> AsyncGenerator[bytes, None]:
        async with aclosing(parts):
            yield await anext(parts)
            async for part in parts:
                for told in await finished(self.who, weight(part), self._part, part):
                    yield told

    def _part(self, part: bytes) -> list[bytes]:
        """Return what of `part`, whole events, is for the client."""
        return list(self._told(part))

    def _told(self, part: bytes) -> Iterator[bytes]:
        for event in events_of(part, self.limits):
            if self.comes_back and event.data is None and retry_s(event) is not None:
                yield event.raw
            if (told := self._event(event)) is not None:
                yield data_event(told).raw

    def _event(self, event: ServerEvent) -> bytes | None:
        if event.data is None:
            return None
        message = read_server_message(event.data, self.limits)
        match message.form:
            case Form.RESPONSE:
                return (
                    event.data
                    if self._is_the_same(event.data)
                    else self._response(message, event.data)
                )
            case Form.REQUEST:
                return event.data
            case _:
                logged = message.method == "notifications/message"
                if message.method not in _PASSED or (logged and not self.logs):
                    return None
                return event.data

    def _whole(self, body: bytes) -> bytes:
        return self._response(read_server_message(body, self.limits), body)

    def _response(self, message: ServerMessage, data: bytes) -> bytes:
        if message.error is not None:
            error = error_for(self.client, message.error, self.upstream)
            return data if error is message.error else with_member(message, "error", error)
        result = message.result or {}
        if result.get("resultType") == _NEEDS_INPUT and self.client is Profile.LEGACY:
            return with_member(message, "result", _cannot_ask())
        told = result_for(self.client, self._with_uris(result), self.upstream, self.method)
        return data if told is message.result else with_member(message, "result", told)

    def _with_uris(self, result: Mapping[str, Any]) -> Mapping[str, Any]:
        """Return `result` with every resource named as it can be read here."""
        match self.method:
            case "resources/read":
                return self._each(result, "contents", self._named)
            case "resources/list":
                return self._each(result, "resources", self._named)
            case "tools/call":
                return self._each(result, "content", self._block)
            case "prompts/get":
                return self._each(result, "messages", self._said)
            case method if method == TASKS_GET and isinstance(result.get("result"), dict):
                inner = self._each(result["result"], "content", self._block)
                return {**result, "result": inner}
            case _:
                return result

    def _each(self, holder: Mapping[str, Any], member: str, change: Any) -> Mapping[str, Any]:
        items = holder.get(member)
        if not isinstance(items, list):
            return holder
        return {**holder, member: [change(i) if isinstance(i, dict) else i for i in items]}

    def _said(self, message: dict[str, Any]) -> dict[str, Any]:
        content = message.get("content")
        return (
            {**message, "content": self._block(content)} if isinstance(content, dict) else message
        )

    def _block(self, block: dict[str, Any]) -> dict[str, Any]:
        match block.get("type"):
            case "resource_link":
                return self._named(block)
            case "resource" if isinstance(block.get("resource"), dict):
                return {**block, "resource": self._named(block["resource"])}
            case _:
                return block

    def _named(self, holder: dict[str, Any]) -> dict[str, Any]:
        uri = holder.get("uri")
        return {**holder, "uri": public_uri(self.server, uri)} if isinstance(uri, str) else holder


def _cannot_ask() -> Mapping[str, Any]:
    text = (
        "The server wants to know something from the user first, and this client cannot be asked in "
        "the middle of a call. Tell the user; do not retry the same call."
    )
    return {"content": [{"type": "text", "text": text}], "isError": True}
