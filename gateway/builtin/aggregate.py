"""The endpoint in front of every server: each message goes to the one server that it is for.

A call that came in here walks the same path as one at the server's own endpoint, under its real name.
"""

import asyncio
import json
from collections.abc import AsyncGenerator, Callable, Mapping, Sequence
from contextlib import aclosing
from dataclasses import replace
from typing import Any, Final, Protocol, TypeAlias, TypeVar

from gateway.builtin.advice import Advice
from gateway.builtin.briefs import is_another
from gateway.builtin.cursors import cursor_of, place_of
from gateway.builtin.follows import METHODS as FOLLOWS
from gateway.builtin.follows import Follows
from gateway.builtin.homeward import Homeward
from gateway.builtin.meta_tools import called_through
from gateway.builtin.notices import PRIMED_SINCE, Notices
from gateway.builtin.offers import Offers
from gateway.builtin.unqualified import Unqualified
from gateway.builtin.waits import Waits
from gateway.domain._value import value
from gateway.domain.calls import Call, CallId, Form, Message, OriginKind, Reply, ServerEvent
from gateway.domain.identity import Credential, Principal
from gateway.domain.nodes import amount, weight
from gateway.domain.tools import OWN, Kind, Profile, Target, UpstreamId
from gateway.errors import GatewayError
from gateway.turns import QUICK_NODES, finished
from gateway.wire import jsontext
from gateway.wire.eras import headers_for, request_for, wants_logs
from gateway.wire.extensions import with_params
from gateway.wire.headers import PARAM_PREFIX
from gateway.wire.jsontext import WireLimits
from gateway.wire.operations import ABOUT_TASKS, CANCELLED, LISTEN
from gateway.wire.param_headers import params_mirrored
from gateway.wire.server_message import read_server_message
from gateway.wire.sse import events_of
from gateway.wire.tasks import TASK_ID, server_of

_RESOURCES: Final = "resources/list"
_NAMELESS: Final = frozenset({"completion/complete", LISTEN})
"""What has no name in its headers (2026-07-28, transports)."""

Key: TypeAlias = tuple[str | None, type, str | int | None]
"""A request of a session's; 1 and "1" are different ids (JSON-RPC 2.0 section 4)."""


Headers: TypeAlias = tuple[tuple[str, str], ...]
T = TypeVar("T")


class Carrier(Protocol):
    """The one path."""

    async def known(self, credential: Credential, endpoint: str) -> Principal:
        """Return whoever holds `credential` at `endpoint`, or raise why nobody does."""
        ...

    async def handle(self, call: Call) -> Reply:
        """Carry `call` to its reply, which may be a refusal; raises nothing of ours."""
        ...

    async def refuse(self, call: Call, error: GatewayError) -> Reply:
        """Refuse what could not be read as a call, and record it like any refusal."""
        ...


@value
class Directed:
    """A call in the words of the server that it is for, and the way back."""

    call: Call
    home: Homeward


class Aggregate:
    """Carries what comes in at `/mcp`. Decides nothing."""

    def __init__(
        self,
        *,
        carrier: Carrier,
        offers: Offers,
        limits: WireLimits,
        new_id: Callable[[], str],
        notices: Notices,
        brief: bool = False,
        priority: Sequence[str] = (),
    ) -> None:
        """`brief`: lists may not say which arguments are mirrored in headers; who mirrors none, for
        them we do. `priority`: the servers that a name without one means first.
        """
        self._carrier = carrier
        self.known = carrier.known
        self._offers = offers
        self._limits = limits
        self._new_id = new_id
        self._brief = brief
        self._notices = notices
        self._follows = Follows(
            carry=carrier.handle,
            towards=self._towards,
            offers=offers,
            notices=notices,
            new_id=new_id,
        )
        self._advice = Advice(carry=carrier.handle, offers=offers, new_id=new_id)
        self._unqualified = Unqualified(
            carry=carrier.handle,
            call=self._called,
            offers=offers,
            priority=priority,
            new_id=new_id,
        )
        self._waits = Waits()
        self._under_way: dict[Key, UpstreamId] = {}
        """Which server a request of a session is at, for when the client cancels it."""

    async def handle(self, call: Call) -> Reply:
        """Carry `call` to its reply, which may be a refusal; raises nothing of ours."""
        message = call.message
        match message.form:
            case Form.REQUEST if message.method == _RESOURCES:
                return await self._resources(call)
            case Form.REQUEST if message.method in FOLLOWS:
                return await self._follows.handle(call)
            case Form.STREAM:
                return await self._follows.stream(self._notices.asked_again(call))
            case Form.REQUEST:
                return await self._requested(call)
            case Form.NOTIFICATION if message.method == CANCELLED and call.session is not None:
                server = self._under_way.get(_key(call, message.params.get("requestId")))
            case Form.RESPONSE if self._unqualified.is_asked(message):
                return await self._unqualified.answered(call)
            case Form.RESPONSE:
                server = self._asking(message)
            case _:
                server = None
        return await self._carrier.handle(call if server is None else self._to(call, server))

    async def refuse(self, call: Call, error: GatewayError) -> Reply:
        """Refuse what could not be read as a call, and record it like any refusal."""
        return await self._carrier.refuse(call, error)

    async def _kept(self, call: Call, reply: Reply) -> Reply:
        """Return `reply` as one that its client can come back to, where that is a session's stream."""
        if isinstance(reply.body, bytes) or not _comes_back(call):
            return reply
        if call.session is None or reply.label is None:
            return reply
        try:
            who = await self.known(call.credential, call.endpoint)
        except GatewayError:
            return reply
        key = who.key, call.session
        parts = self._notices.calls.kept(
            key,
            reply.body,
            self._limits,
            label=reply.label,
            person=who.person,
            of=self._notices.here,
            require_going=reply.require_going,
        )
        return replace(reply, body=parts)

    async def _requested(self, call: Call) -> Reply:
        meant = await _in_turn(call, called_through, call)
        if self._unqualified.concerns(meant):
            return await self._unqualified.handle(meant)
        # A program mirrors nothing: who carries its calls does.
        return await self._called(meant, mirrors=meant is call and call.script is None)

    async def _called(self, call: Call, *, mirrors: bool = False) -> Reply:
        """Carry a request under the name that it gives, and advise whoever gave a wrong one."""
        directed = await self._directed(call, mirrors=mirrors)
        reply = await (
            self._carrier.handle(call) if directed is None else self._carried(call, directed)
        )
        return await self._advice.added(call, reply)

    def _to(self, call: Call, server: UpstreamId) -> Call:
        """Return a message without a target as one for `server`."""
        era = self._offers.era(server, call.profile)
        headers = headers_for(era, call.message, "", ())
        return replace(call, server=server, profile=era, headers=headers)

    def _asking(self, message: Message) -> UpstreamId | None:
        """Return the server whose question `message` answers: its id begins with the name."""
        server = UpstreamId(str(message.id).partition("/")[0])
        return server if server != OWN and server in self._offers.servers else None

    async def _directed(self, call: Call, *, mirrors: bool) -> Directed | None:
        """Return `call` as one for the server of its target; `None` if that is no server's.

        `mirrors`: what its client mirrors in headers are the arguments of that very target.
        """
        found = self._meant(call.message)
        if found is None:
            return None
        target, params = found
        message = await _in_turn(call, with_params, call.message, params)
        return await self._towards(call, target, message, mirrors=mirrors)

    async def _towards(
        self, call: Call, target: Target, message: Message, *, mirrors: bool = False
    ) -> Directed:
        server = target.server
        era = self._offers.era(server, call.profile)
        named = "" if message.method in _NAMELESS else target.name
        own = _own_mirrored(call) if mirrors and call.profile is Profile.MODERN else None
        if self._brief and not own:
            own = None
        mirrored = self._mirrored(target, message.params, era, own)
        inner = replace(
            call,
            server=server,
            profile=era,
            message=await _in_turn(call, request_for, era, message, call.profile),
            headers=headers_for(era, message, named, mirrored),
        )
        home = Homeward(
            server=server,
            method=message.method,
            upstream=era,
            client=call.profile,
            logs=call.profile is Profile.LEGACY or wants_logs(message),
            limits=self._limits,
            who=call.asker,
            comes_back=_comes_back(call),
        )
        return Directed(call=inner, home=home)

    def _meant(self, message: Message) -> tuple[Target, Mapping[str, Any]] | None:
        """Return the target that `message` names, and its params with the server's own name for it."""
        params = message.params
        match message.method:
            case "tools/call":
                return _with_name(params, "name", self._offers.find(Kind.TOOL, params["name"]))
            case "prompts/get":
                return _with_name(params, "name", self._offers.find(Kind.PROMPT, params["name"]))
            case "resources/read":
                return _with_name(params, "uri", self._offers.find_resource(params["uri"]))
            case "completion/complete":
                return self._completed(params)
            case method if method in ABOUT_TASKS:
                return self._task(params)
            case _:
                return None

    def _task(self, params: Mapping[str, Any]) -> tuple[Target, Mapping[str, Any]] | None:
        """Return where a task is that its handle says; whether it is one the server's path finds out."""
        handle = params[TASK_ID]
        server = UpstreamId(server_of(handle) or "")
        if server == OWN or server not in self._offers.servers:
            return None
        return Target(server=server, kind=Kind.SERVER, name=handle), params

    def _completed(self, params: Mapping[str, Any]) -> tuple[Target, Mapping[str, Any]] | None:
        ref = params["ref"]
        if ref["type"] == "ref/prompt":
            found = _with_name(ref, "name", self._offers.find(Kind.PROMPT, ref["name"]))
        else:
            found = _with_name(ref, "uri", self._offers.find_resource(ref["uri"]))
        return None if found is None else (found[0], {**params, "ref": found[1]})

    def _mirrored(
        self, target: Target, params: Mapping[str, Any], era: Profile, own: Headers | None
    ) -> Headers:
        """Return the headers that mirror arguments: the client's `own`, if it mirrors any."""
        if target.kind is not Kind.TOOL or era is Profile.LEGACY:
            return ()
        if own is not None:
            return own
        definition = self._offers.definition(target, era)
        return (
            () if definition is None else params_mirrored(params.get("arguments") or {}, definition)
        )

    async def _carried(self, call: Call, directed: Directed) -> Reply:
        """Carry a request, and know where it is for as long as it is under way."""
        key = _key(call, call.message.id)
        self._under_way[key] = directed.call.server
        streams = False
        try:
            reply = await directed.home.reply(await self._carrier.handle(directed.call))
            if isinstance(reply.body, bytes):
                return reply
            streams = True
            parts = self._until_its_end(reply.body, key)
            try:
                return await self._kept(call, replace(reply, body=parts))
            except BaseException:
                async with aclosing(parts):
                    await anext(parts)  # only what was begun sees to its own end
                raise
        finally:
            if not streams:
                self._under_way.pop(key, None)

    async def _until_its_end(
        self, parts: AsyncGenerator[bytes, None], key: Key
    ) -> AsyncGenerator[bytes, None]:
        try:
            async with aclosing(parts):
                async for part in parts:
                    yield part
        finally:
            self._under_way.pop(key, None)

    async def _resources(self, call: Call) -> Reply:
        """List resources: no definition of them is pinned, so each server that has any is asked.

        A server that does not answer is left out.
        """
        own = await self._carrier.handle(call)
        if own.code is not None or not isinstance(own.body, bytes):
            return own
        eras = dict(self._offers.with_resources(call.profile))
        cursor = call.message.params.get("cursor")
        wanted = dict.fromkeys(eras) if cursor is None else place_of(cursor, dict)
        asked = [server for server in eras if server in wanted]
        pages = await asyncio.gather(*(self._page(call, one, wanted[one]) for one in asked))
        of = dict(zip(asked, pages, strict=True))
        nodes = amount(pages, QUICK_NODES)
        body = await finished(call.asker, nodes, _listed, own.body, of, cursor is None)
        return replace(own, body=body)

    async def _page(self, call: Call, server: UpstreamId, cursor: Any) -> Mapping[str, Any]:
        """Return one page of what `server` lists; nothing, if it gives none in time.

        One that the caller has just waited for in vain is not asked, or given little time.
        """
        clock = asyncio.get_running_loop().time
        longest_s = self._waits.longest_s(call, server, clock())
        if not longest_s:
            return {}
        kept = {name: part for name, part in call.message.params.items() if name != "cursor"}
        params = kept if cursor is None else {**kept, "cursor": cursor}
        asked = await _in_turn(call, with_params, call.message, params)
        target = Target(server=server, kind=Kind.SERVER, name="")
        directed = await self._towards(
            replace(call, id=CallId(self._new_id()), parent=call.id), target, asked
        )
        try:
            async with asyncio.timeout(longest_s):
                reply = await directed.home.reply(await self._carrier.handle(directed.call))
                body = reply.body
                if not isinstance(body, bytes):
                    body = await self._last(call, body)
        except TimeoutError:
            self._waits.in_vain(call, server, clock())
            return {}
        if reply.code is not None:
            return {}
        self._waits.answered(call, server)
        return await finished(call.asker, weight(body), self._result, body)

    async def _last(self, call: Call, parts: AsyncGenerator[bytes, None]) -> bytes:
        """Return the response at the end of a stream."""
        last = b""
        async with aclosing(parts):
            async for part in parts:
                events = events_of(part, self._limits)
                found = await finished(call.asker, weight(part), list[ServerEvent], events)
                last = next((one.data for one in found if one.data), last)
        return last

    def _result(self, body: bytes) -> Mapping[str, Any]:
        if not body:
            return {}
        return read_server_message(body, self._limits).result or {}


def _listed(own: bytes, pages: Mapping[UpstreamId, Mapping[str, Any]], is_first: bool) -> bytes:
    """Return our `own` list with what servers have on their `pages`."""
    answer = json.loads(own)
    result = answer["result"]
    found = [one for page in pages.values() for one in page.get("resources", ())]
    if result["resources"]:
        # None of a server's may pass for ours; of pages, ours is on the first.
        found = [one for one in found if not is_another(one.get("uri"))]
    ours = result["resources"] if is_first else []
    result["resources"] = [*ours, *found]
    following = {s: page["nextCursor"] for s, page in pages.items() if "nextCursor" in page}
    if following:
        result["nextCursor"] = cursor_of(following)
    return jsontext.write(answer).encode()


async def _in_turn(call: Call, work: Callable[..., T], *args: Any) -> T:
    """Return `work(*args)`, which writes what `call` says: beside the loop, if that is much."""
    return await finished(call.asker, weight(call.message.body), work, *args)


def _comes_back(call: Call) -> bool:
    return (
        call.session is not None
        and call.revision >= PRIMED_SINCE
        and call.profile is Profile.LEGACY
        and call.origin is OriginKind.DIRECT
    )


def _own_mirrored(call: Call) -> Headers:
    return tuple(pair for pair in call.headers if pair[0].startswith(PARAM_PREFIX))


def _key(call: Call, id_: object) -> Key:
    return (call.session, type(id_), id_ if isinstance(id_, str | int) else None)


def _with_name(
    holder: Mapping[str, Any], member: str, target: Target | None
) -> tuple[Target, Mapping[str, Any]] | None:
    return None if target is None else (target, {**holder, member: target.name})
