"""A program's calls on the one path: each becomes an ordinary call, judged and recorded by itself."""

from collections.abc import AsyncGenerator, Callable, Mapping, Sequence
from contextlib import aclosing
from dataclasses import replace
from functools import partial
from typing import Any, Final, Protocol

from gateway.builtin.extract import TOOL as EXTRACT
from gateway.builtin.extract import Extractor
from gateway.builtin.late_calls import LateCalls, is_late
from gateway.domain.calls import Call, CallId, Form, Message, OriginKind, Permit, Reply, ServerEvent
from gateway.domain.nodes import amount, weight
from gateway.domain.scripts import InScript, Script
from gateway.domain.tools import Profile
from gateway.ports.sandbox import NeedsApproval, ToolRefused
from gateway.turns import QUICK_NODES, finished
from gateway.wire import jsontext
from gateway.wire.extensions import TASKS, with_params
from gateway.wire.inbound import meta_of
from gateway.wire.jsonrpc import METHOD_NOT_FOUND
from gateway.wire.jsontext import WireLimits
from gateway.wire.replies import REFUSAL_KEY
from gateway.wire.server_message import ServerMessage, read_server_message
from gateway.wire.sse import events_of
from gateway.wire.tasks import TASK_ID

_CAPABILITIES: Final = "io.modelcontextprotocol/clientCapabilities"
_DROPPED: Final = frozenset({"progressToken"})
_NOBODY: Final = {"code": METHOD_NOT_FOUND, "message": "a program cannot be asked anything"}
_MOST_OF_A_TEXT: Final = 4_000
"""Characters of what a tool says of its failure."""


class Named(Protocol):
    """A tool as it was shown to the program's author."""

    @property
    def name(self) -> str: ...
    @property
    def digest(self) -> str: ...


class Carrier(Protocol):
    """The endpoint in front of all servers."""

    async def handle(self, call: Call) -> Reply:
        """Carry `call` to its reply, which may be a refusal; raises nothing of ours."""
        ...


class ScriptBroker:
    """Carries out the calls of one program that runs on `permit`'s behalf.

    They are its author's: the same credential, session, task and run. What the author's client could
    be asked, a program cannot.
    """

    def __init__(
        self,
        permit: Permit,
        script: Script,
        tools: Mapping[tuple[str, str], Named],
        *,
        carrier: Carrier,
        limits: WireLimits,
        new_id: Callable[[], str],
        extractor: Extractor | None = None,
        late: LateCalls | None = None,
    ) -> None:
        """Take the tools that the program knows, by server and own name.

        With an `extractor` it can have its client's model read something; with `late`, servers that
        may answer late are waited for.
        """
        self._late = late
        self._extractor = extractor
        self._permit = permit
        self._script = script
        self._tools = tools
        self._carrier = carrier
        self._limits = limits
        self._new_id = new_id

    @property
    def who(self) -> str:
        """Whose calls they are: the author's."""
        return self._permit.principal.person

    async def call(self, server: str, tool: str, arguments: Mapping[str, Any], *, seq: int) -> Any:
        """Return the result of one call, as JSON values.

        Raises:
            ToolRefused: It has none.
            NeedsApproval: A person must answer first.

        """
        if self._extractor is not None and (server, tool) == (EXTRACT.server, EXTRACT.name):
            return await self._extractor.call(arguments, seq)
        known = self._tools.get((server, tool))
        if known is None:
            raise ToolRefused("unknown_tool", "there is no tool of this name")
        call = self._call(known, arguments, seq)
        reply, message = await self._answered(call)
        if self._late is not None and is_late(message.result or {}):
            ask = partial(self._about, call)
            reply, message = await self._late.settled(message.result or {}, ask)
        result = self._result(reply, message)
        return await finished(self.who, amount(result, QUICK_NODES), _content, result)

    async def _answered(self, call: Call) -> tuple[Reply, ServerMessage]:
        reply = await self._carrier.handle(call)
        if isinstance(reply.body, bytes):
            message = await self._read(reply.body) if reply.body else None
        else:
            message = await self._last(call, reply.body)
        if message is None:
            raise ToolRefused(reply.code or "upstream_failed", "there was no answer", unknown=True)
        return reply, message

    async def _read(self, data: bytes) -> ServerMessage:
        return await finished(self.who, weight(data), read_server_message, data, self._limits)

    async def _about(self, call: Call, method: str, handle: str) -> tuple[Reply, ServerMessage]:
        """Send a request about the task that `call` was answered with, of which its program knows nothing."""
        id_ = self._new_id()
        params = {TASK_ID: handle, "_meta": call.message.params["_meta"]}
        message = with_params(replace(call.message, method=method, id=id_), params)
        return await self._answered(
            replace(call, id=CallId(id_), message=message, definition_hash=None)
        )

    def _call(self, known: Named, arguments: Mapping[str, Any], seq: int) -> Call:
        outer = self._permit.call
        meta = {k: v for k, v in meta_of(outer.message).items() if k not in _DROPPED}
        if _CAPABILITIES in meta:
            # Of what its author's client can do a program can nothing, and the gateway waits for it.
            late = self._late is not None and outer.profile is Profile.MODERN
            meta[_CAPABILITIES] = {"extensions": {TASKS: {}}} if late else {}
        params = {
            "name": known.name,
            "arguments": dict(arguments),
            **({"_meta": meta} if meta else {}),
        }
        id_ = self._new_id()
        content = {"jsonrpc": "2.0", "id": id_, "method": "tools/call", "params": params}
        return replace(
            outer,
            id=CallId(id_),
            message=Message(
                form=Form.REQUEST,
                method="tools/call",
                id=id_,
                params=params,
                body=jsontext.write(content).encode(),
            ),
            headers=(),
            origin=OriginKind.SANDBOX,
            parent=CallId(self._permit.decision.id),
            answered=None,
            # What its author has read, as stubs; under another definition nothing is called.
            definition_hash=known.digest,
            script=InScript(script=self._script, seq=seq),
        )

    async def _last(self, call: Call, parts: AsyncGenerator[bytes, None]) -> ServerMessage | None:
        """Return the response at the end of a stream; what is asked on it is answered with a no."""
        last = None
        async with aclosing(parts):
            async for part in parts:
                events = events_of(part, self._limits)
                for event in await finished(self.who, weight(part), list[ServerEvent], events):
                    if not event.data:
                        continue
                    message = await self._read(event.data)
                    if message.form is Form.RESPONSE:
                        last = message
                    elif message.form is Form.REQUEST:
                        await self._decline(call, message)
        return last

    async def _decline(self, call: Call, asked: ServerMessage) -> None:
        content = {"jsonrpc": "2.0", "id": asked.id, "error": _NOBODY}
        answer = Message(
            form=Form.RESPONSE,
            method="",
            id=asked.id,
            params={"error": _NOBODY},
            body=jsontext.write(content).encode(),
        )
        await self._carrier.handle(
            replace(call, id=CallId(self._new_id()), message=answer, definition_hash=None)
        )

    def _result(self, reply: Reply, message: ServerMessage) -> Mapping[str, Any]:
        """Return the result that an answer has; raises as `call`."""
        if message.error is not None:
            text = str(message.error.get("message", ""))[:_MOST_OF_A_TEXT]
            if reply.code is not None:
                self._require_no_question(message.error.get("data"))
            # What is no refusal of ours the server has said, and so it got the call.
            code = reply.code or "failed"
            raise ToolRefused(code, text, reached=reply.code is None, unknown=reply.unknown)
        result = message.result or {}
        if reply.code is not None:
            meta = result.get("_meta")
            self._require_no_question(meta.get(REFUSAL_KEY) if isinstance(meta, dict) else None)
            raise ToolRefused(reply.code, _text(result), unknown=reply.unknown)
        if result.get("resultType", "complete") != "complete":
            raise ToolRefused(
                "input_required",
                "this tool wants to ask its user something; call it directly, not in a program",
                reached=True,
            )
        if result.get("isError") is True:
            raise ToolRefused("failed", _text(result), reached=True)
        return result

    def _require_no_question(self, refusal: Any) -> None:
        waits_for = refusal.get("approval_id") if isinstance(refusal, dict) else None
        if isinstance(waits_for, str) and waits_for:
            raise NeedsApproval(waits_for)


def _content(result: Mapping[str, Any]) -> Any:
    """Return what a program gets of a result: data where there is some, else its text."""
    if "structuredContent" in result:
        return result["structuredContent"]
    blocks = result.get("content")
    found = [_block(one) for one in blocks] if isinstance(blocks, list) else []
    if all(isinstance(one, str) for one in found):
        return "\n".join(found)
    return found


def _block(block: Any) -> Any:
    """Return a block of content; of one that is no text only what it is and how large."""
    if not isinstance(block, dict):
        return None
    if block.get("type") == "text" and isinstance(block.get("text"), str):
        return block["text"]
    return {"type": str(block.get("type", "")), "bytes": len(jsontext.write_octets(block))}


def _text(result: Mapping[str, Any]) -> str:
    blocks: Sequence[Any] = result.get("content") or ()
    texts = [one["text"] for one in blocks if isinstance(one, dict) and _is_text(one)]
    return "\n".join(texts)[:_MOST_OF_A_TEXT]


def _is_text(block: Mapping[str, Any]) -> bool:
    return block.get("type") == "text" and isinstance(block.get("text"), str)
