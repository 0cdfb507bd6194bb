"""What a refused call at `/mcp` is told beyond its code: what could be called instead, or with what."""

import json
import re
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import replace
from typing import Any, Final, TypeAlias

from gateway.builtin.offers import Offers
from gateway.builtin.spelling import nearest, parts_of
from gateway.domain.calls import Call, CallId, Reply
from gateway.domain.tools import OWN, Kind
from gateway.wire import jsontext
from gateway.wire.extensions import with_params
from gateway.wire.operations import SEARCH_TOOLS, TOOL_DETAILS, TOOLS_CALL
from gateway.wire.replies import REFUSAL_KEY

Carry: TypeAlias = Callable[[Call], Awaitable[Reply]]
"""The one path."""

_MOST: Final = 50
"""What a search answers at most."""
_CANDIDATES: Final = 5
_LONGEST_QUERY: Final = 200
"""Characters of a name that is looked for."""
_LONGEST_SCHEMA: Final = 8_000
"""Characters; a larger one is not worth telling unasked."""
_INVALID: Final = "invalid_arguments"


class Advice:
    """Adds to a refusal what makes the next call a good one.

    Which other tools are named is what the caller's own searches for that name answer: one or two more
    calls of theirs, decided and recorded as such. So a hidden tool is neither named nor told from a missing one.
    """

    def __init__(self, *, carry: Carry, offers: Offers, new_id: Callable[[], str]) -> None:
        self._carry = carry
        self._offers = offers
        self._new_id = new_id

    async def added(self, call: Call, reply: Reply) -> Reply:
        """Return `reply` to `call`, in whose params stands the public name, with what helps."""
        if call.message.method != TOOLS_CALL or not isinstance(reply.body, bytes):
            return reply
        match reply.code:
            case "unknown_tool":
                return _with_words(reply, reply.body, await self._instead(call))
            case "denied" if _reasons(reply.body) == {_INVALID}:
                return _with_words(reply, reply.body, self._schema(call))
            case _:
                return reply

    async def _instead(self, call: Call) -> str:
        then = (
            f"Look at one with {TOOL_DETAILS} before you call it, or find others with "
            f"{SEARCH_TOOLS}."
        )
        if call.namesakes:  # which the refusal itself names
            return then
        names = await self._found(call)
        if not names:
            return f"Find tools with {SEARCH_TOOLS}: say what is to be done."
        return f"These may be meant: {', '.join(names)}. {then}"

    async def _found(self, call: Call) -> Sequence[str]:
        name = call.message.params["name"]
        query = " ".join(re.findall(r"[^\W_]+", name[:_LONGEST_QUERY]))
        if not query or call.script is not None:  # a program guesses no better a second time
            return ()
        if pattern := parts_of(name):
            # Of a word that was mistyped no search by keyword knows what it was to be.
            like_it = await self._searched(call, pattern, _MOST, "regex")
            if len(like_it) == _MOST:  # some of very many, and not the nearest
                like_it = (*like_it, *await self._searched(call, query, _CANDIDATES, "keyword"))
            if near := nearest(name, dict.fromkeys(like_it)):
                return near[:_CANDIDATES]
        # By keyword, whatever the operator prefers: nobody asked that a name leaves the gateway.
        return await self._searched(call, query, _CANDIDATES, "keyword")

    async def _searched(self, call: Call, query: str, limit: int, strategy: str) -> Sequence[str]:
        """Return the names that a search of the caller's own finds, one more call of theirs."""
        arguments = {"query": query, "limit": limit, "detail": "name", "strategy": strategy}
        params = {**call.message.params, "name": SEARCH_TOOLS, "arguments": arguments}
        search = replace(
            call,
            id=CallId(self._new_id()),
            parent=call.id,
            server=OWN,
            message=with_params(call.message, params),
        )
        reply = await self._carry(search)
        if reply.code is not None or not isinstance(reply.body, bytes):
            return ()
        text = json.loads(reply.body)["result"]["content"][0]["text"]
        servers: Mapping[str, list[str]] = json.loads(text)["servers"]
        return [found for names in servers.values() for found in names]

    def _schema(self, call: Call) -> str:
        """Return what tells the arguments of a tool that the caller may call: that was found out."""
        name = call.message.params["name"]
        target = self._offers.find(Kind.TOOL, name)
        if target is None:
            return ""
        era = self._offers.era(target.server, call.profile)
        definition = self._offers.definition(target, era)
        schema = None if definition is None else definition.content.get("inputSchema")
        if schema is not None and len(text := jsontext.write(schema)) <= _LONGEST_SCHEMA:
            return f"Its inputSchema is {text}"
        return f"Look at it first: {TOOL_DETAILS}(names=[{json.dumps(name)}])."


def _reasons(body: bytes) -> set[str]:
    refusal = json.loads(body).get("result", {}).get("_meta", {}).get(REFUSAL_KEY, {})
    return {reason["code"] for reason in refusal.get("reasons", ())}


def _with_words(reply: Reply, body: bytes, words: str) -> Reply:
    """Return `reply` with `words` as a further text: the first one is the same at every endpoint."""
    message: dict[str, Any] = json.loads(body)
    if not words or "result" not in message:
        return reply
    message["result"]["content"].append({"type": "text", "text": words})
    return replace(reply, body=jsontext.write(message).encode())
