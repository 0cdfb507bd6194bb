"""Names without a server: what may be meant by one, and who decides which.

A tool or prompt is always called `server__name`. Where somebody leaves the server out, the operator's
order of servers decides, or else the user; never the order in which servers came, nor one server alone.
"""

import asyncio
import json
from collections.abc import AsyncGenerator, Awaitable, Callable, Mapping, Sequence
from contextlib import aclosing
from dataclasses import replace
from http import HTTPStatus
from typing import Any, Final, TypeAlias

from gateway.builtin.names import BETWEEN
from gateway.builtin.offers import Offers
from gateway.domain.calls import Call, CallId, Form, Message, Reply
from gateway.domain.nodes import weight
from gateway.domain.tools import OWN, Kind, Profile, UpstreamId
from gateway.turns import finished, in_steps
from gateway.wire import jsontext
from gateway.wire.elicitation import ways_to_ask
from gateway.wire.extensions import with_params
from gateway.wire.inbound import CONTENT_TYPE
from gateway.wire.naming import Told, asking_request, asking_result, chosen, remembering, told_in
from gateway.wire.operations import OWN_NAMES, TOOL_DETAILS, TOOLS_CALL
from gateway.wire.own_abilities import abilities_of
from gateway.wire.session import told_by
from gateway.wire.sse import data_event

Carry: TypeAlias = Callable[[Call], Awaitable[Reply]]

_KINDS: Final = {TOOLS_CALL: Kind.TOOL, "prompts/get": Kind.PROMPT}
_ASK_S: Final = 300.0
"""How long a user may take to choose, in a session."""
_MOST_ASKED: Final = 1_000
_MOST_ASKED_OF_ONE: Final = 8
"""Of one person, with whatever clients."""
_FORMS_SINCE: Final = "2025-06-18"
_FORM: Final = "e"
_EVENTS: Final = (("content-type", "text/event-stream"), ("cache-control", "no-cache"))
_MOST_CANDIDATES: Final = 20


class Unqualified:
    """Finds what is meant among what the caller can see; the call then walks the one path.

    What can be seen the caller's own look tells: one more call of theirs, decided and recorded.
    """

    def __init__(
        self,
        *,
        carry: Carry,
        call: Carry,
        offers: Offers,
        priority: Sequence[str],
        new_id: Callable[[], str],
        patience_s: float = _ASK_S,
    ) -> None:
        """`carry` is the one path, `call` what calls a target by its whole name.

        `priority` are servers: the first that has a name is meant by it.
        """
        self._carry = carry
        self._call = call
        self._offers = offers
        self._priority = tuple(map(UpstreamId, priority))
        self._new_id = new_id
        self._patience_s = patience_s
        self._asked: dict[str, tuple[str, asyncio.Future[str | None], str]] = {}
        """The session that was asked, by the question's id, who waits for the answer, and the person."""

    def concerns(self, call: Call) -> bool:
        """Whether `call` names a tool or prompt without its server, and none of ours."""
        kind, name = _KINDS.get(call.message.method), call.message.params.get("name")
        return (
            kind is not None
            and isinstance(name, str)
            and bool(name)
            and BETWEEN not in name
            and not (kind is Kind.TOOL and name in OWN_NAMES)
            and self._offers.find(kind, name) is None
        )

    async def handle(self, call: Call) -> Reply:
        """Carry a call that `concerns` to its reply; raises nothing of ours."""
        # Nobody has looked at who calls, nor counted: what they say comes back is theirs to write.
        nodes = weight(call.message.body)
        message, told = await finished(call.asker, nodes, told_in, call.message)
        call = replace(call, message=message)
        candidates = await self._candidates(call)
        if not candidates:
            return await self._call(call)
        named = self._decided(_KINDS[message.method], candidates)
        if named is not None:
            return await self._call(_named(call, named))
        candidates = candidates[:_MOST_CANDIDATES]  # whoever is to read them can
        if told.asked:
            return await self._chosen(call, told, candidates)
        if len(candidates) > 1 and call.script is None:
            if call.profile is Profile.MODERN and ways_to_ask(call).form:
                return _reply(call, asking_result(message.params["name"], candidates))
            if _takes_forms(call) and self._may_ask(call.asker):
                return Reply(
                    status=HTTPStatus.OK, headers=_EVENTS, body=self._asking(call, candidates)
                )
        return await self._refused(call, candidates)

    def is_asked(self, message: Message) -> bool:
        """Whether `message` answers a question that waits."""
        return message.form is Form.RESPONSE and message.id in self._asked

    async def answered(self, call: Call) -> Reply:
        """Take the answer of a session's user. Who gives it is authenticated like any caller."""
        id_ = str(call.message.id)
        asked = replace(call.message, form=Form.REQUEST, method="ping", params={})
        checked = replace(call, id=CallId(self._new_id()), message=with_params(asked, {}))
        reply = await self._carry(checked)
        waiting = self._asked.get(id_)
        if reply.code is not None or waiting is None or waiting[0] != call.session:
            return await self._carry(call)  # where it answers nothing, and is refused for it
        if not waiting[1].done():
            waiting[1].set_result(chosen(call.message.params))
        return Reply(status=HTTPStatus.ACCEPTED, headers=(), body=b"")

    def _may_ask(self, person: str) -> bool:
        """Whether there is room for one more question that waits, of all and of `person`."""
        theirs = sum(of == person for *_, of in self._asked.values())
        return theirs < _MOST_ASKED_OF_ONE and len(self._asked) < _MOST_ASKED

    def _decided(self, kind: Kind, candidates: Sequence[str]) -> str | None:
        """Return the candidate that the operator's order of servers chooses, if it does."""
        by_server: dict[UpstreamId, str] = {}
        for name in candidates:
            found = self._offers.find(kind, name)
            if found is not None:
                by_server[found.server] = name
        return next((by_server[one] for one in self._priority if one in by_server), None)

    async def _chosen(self, call: Call, told: Told, candidates: Sequence[str]) -> Reply:
        """Call what the user chose, if that is what they were asked about."""
        if told.name is None or told.name not in candidates:
            return await self._refused(call, candidates)
        reply = await self._call(_named(call, told.name))
        if call.profile is Profile.LEGACY or not isinstance(reply.body, bytes):
            return reply
        nodes = weight(reply.body)
        body = await finished(call.asker, nodes, _remembering, told.name, reply.body)
        return replace(reply, body=body)

    async def _refused(self, call: Call, candidates: Sequence[str]) -> Reply:
        return await self._call(replace(call, namesakes=tuple(candidates)))

    async def _asking(self, call: Call, candidates: Sequence[str]) -> AsyncGenerator[bytes, None]:
        """Ask the user of a session on the stream of the answer, then answer."""
        yield b""
        # No server can have an empty name, so no server's question has such an id.
        id_ = f"/{self._new_id()}"
        name: str | None = None
        if self._may_ask(call.asker):  # others may have been asked since it was looked
            future: asyncio.Future[str | None] = asyncio.get_running_loop().create_future()
            self._asked[id_] = (call.session or "", future, call.asker)
            try:
                request = asking_request(id_, call.message.params["name"], candidates)
                yield data_event(request).raw
                async with asyncio.timeout(self._patience_s):
                    name = await future
            except TimeoutError:
                name = None
            finally:
                del self._asked[id_]
        reply = await self._chosen(call, Told(asked=True, name=name), candidates)
        if isinstance(reply.body, bytes):
            yield data_event(reply.body).raw
            return
        async with aclosing(reply.body) as parts:
            async for part in parts:
                yield part

    async def _candidates(self, call: Call) -> Sequence[str]:
        """Return the names that may be meant, of those that the caller can see, in order."""
        name = call.message.params["name"]
        if call.message.method == TOOLS_CALL:
            arguments = {"name": TOOL_DETAILS, "arguments": {"names": [name]}}
            result = await self._looked(call, TOOLS_CALL, arguments)
            told = json.loads(result["content"][0]["text"]) if result else {}
            found: list[str] = told.get("candidates", {}).get(name, [])
            return found
        listed = (await self._looked(call, "prompts/list", {})).get("prompts", [])
        found = []
        async for some in in_steps(listed):
            targets = {one["name"]: self._offers.find(Kind.PROMPT, one["name"]) for one in some}
            found += [each for each, of in targets.items() if of is not None and of.name == name]
        return found

    async def _looked(
        self, call: Call, method: str, params: Mapping[str, Any]
    ) -> Mapping[str, Any]:
        """Return what the gateway itself answers to the same caller; nothing, if it refuses."""
        meta = {part: said for part, said in call.message.params.items() if part == "_meta"}
        message = with_params(replace(call.message, method=method), {**meta, **params})
        look = replace(
            call,
            id=CallId(self._new_id()),
            parent=call.id,
            server=OWN,
            message=message,
            definition_hash=None,
        )
        reply = await self._carry(look)
        if reply.code is not None or not isinstance(reply.body, bytes):
            return {}
        told = await finished(call.asker, weight(reply.body), json.loads, reply.body)
        result: Mapping[str, Any] = told.get("result", {})
        return {} if result.get("isError") else result


def _remembering(name: str, body: bytes) -> bytes:
    """Return the answer in `body`; where it asks something more, with `name` to come back with."""
    content = json.loads(body)
    result = content.get("result")
    if not isinstance(result, dict) or result.get("resultType") != "input_required":
        return body
    content["result"] = remembering(name, result)
    return jsontext.write(content).encode()


def _named(call: Call, name: str) -> Call:
    return replace(call, message=with_params(call.message, {**call.message.params, "name": name}))


def _takes_forms(call: Call) -> bool:
    """Whether the client of a session can ask its user: its id says so, and was proven meanwhile."""
    return (
        call.profile is Profile.LEGACY
        and call.session is not None
        and call.revision >= _FORMS_SINCE
        and _FORM in abilities_of(told_by(call.session))
    )


def _reply(call: Call, result: Mapping[str, Any]) -> Reply:
    body = jsontext.write({"jsonrpc": "2.0", "id": call.message.id, "result": result})
    return Reply(status=HTTPStatus.OK, headers=(CONTENT_TYPE,), body=body.encode())
