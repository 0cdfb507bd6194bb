"""What `/mcp` says by itself: that lists have changed for this principal, and resources it follows.

Nothing that a server writes is passed on. A server's word is why something is looked at again; what is
told is what this principal is shown, under names that it knows.
"""

import asyncio
import hashlib
from collections.abc import AsyncGenerator, Awaitable, Callable, Iterable, Mapping, Sequence
from contextlib import aclosing, suppress
from dataclasses import replace
from typing import Final

from gateway.builtin.call_streams import CallStreams
from gateway.builtin.followers import Followers
from gateway.builtin.mailbox import Mailbox
from gateway.builtin.mailboxes import Key
from gateway.builtin.names import public_uri
from gateway.domain.calls import Call, Permit, ServerEvent
from gateway.domain.flow import RunId
from gateway.domain.identity import Principal
from gateway.domain.selection import Selection
from gateway.domain.tools import Kind, UpstreamId
from gateway.errors import (
    GatewayError,
    IdentityUnavailable,
    LimitExceeded,
    PolicyUnavailable,
    ProtocolError,
    UnknownTool,
)
from gateway.ports import Authenticator
from gateway.wire.jsonrpc import INVALID_REQUEST
from gateway.wire.notices import (
    CHANGING,
    Subscription,
    acknowledged,
    list_changed,
    lists_wanted,
    over,
    updated,
)
from gateway.wire.operations import is_descriptions, subscribed
from gateway.wire.sse import data_event

_LOOK_S: Final = 1.0
"""How often it is asked whether anything has changed at all; that costs next to nothing."""
_SELDOM_S: Final = 60.0
"""How often it is looked whom to forget while nobody listens."""
_SETTLE_S: Final = 0.05
"""What comes within it is told together."""
_RECHECK_S: Final = 30.0
"""After how long a stream that nothing was said on is asked if its token still holds."""
_AFTER: Final = "last-event-id"
_MOST_STREAMS: Final = 200
"""Of one person: each is looked at whenever anything changes, and is a connection."""
_BEGUN: Final = ServerEvent(raw=b"", data=None)
PRIMED_SINCE: Final = "2025-11-25"
"""Clients of earlier revisions would take an event without data for a broken message."""
_SCOPES: Final[Mapping[Kind, frozenset[str]]] = {
    Kind.TOOL: frozenset({"tools:list", "tools:call"}),
    Kind.PROMPT: frozenset({"prompts"}),
    Kind.RESOURCE: frozenset({"resources"}),
}
"""Any of which lets a token see the list."""

Shown = Callable[[Permit, Kind], Awaitable[Iterable[str]]]
Described = Callable[[Permit, str], Awaitable[str | None]]
Chosen = Callable[[Principal, str | None, RunId], Selection]
Sees = Callable[[Permit, UpstreamId, str], Awaitable[bool]]


class _Stream:
    """One stream that is open."""

    def __init__(
        self, permit: Permit, lists: frozenset[Kind], box: Mailbox, subscription: Subscription
    ) -> None:
        self.permit = permit
        self.lists = lists
        self.box = box
        self.subscription = subscription
        self.looked: tuple[object, int] | None = None
        """What its version was when its client was last told what had changed."""
        self.asked_at = asyncio.get_running_loop().time()
        """When its token was last asked for."""


class Notices:
    """Tells clients at `/mcp` what has changed for them; each client its own, and nothing else's."""

    def __init__(
        self,
        *,
        followers: Followers,
        calls: CallStreams,
        authenticator: Authenticator,
        shown: Shown,
        sees: Sees,
        described: Described,
        chosen: Chosen,
        version: Callable[[], object],
        idle_s: float,
    ) -> None:
        """`shown` is what a principal is shown of a list, as text; `sees`, whether of a resource;
        `described`, what our own resource says to them, or nothing where they have none; `chosen`,
        which servers its conversation sees now.

        `version` is another one whenever `shown` may be. `idle_s` is after how many seconds without a
        stream a session's subscriptions at servers end; they begin anew with its next stream.
        """
        self._followers = followers
        self.calls = calls
        """The streams of sessions' calls."""
        self.here: object = object()
        """Which of these are of calls that are carried where this tells of changes."""
        self._authenticator = authenticator
        self._shown = shown
        self._sees = sees
        self._described = described
        self._chosen = chosen
        self._version = version
        self._idle_s = idle_s
        self._streams: dict[Key, _Stream] = {}
        self._missing: dict[str, Sequence[str]] = {}
        self._again: dict[str, str] = {}
        """By the id of a call, after which event of an earlier call's it wants to go on."""

    def asked_again(self, call: Call) -> Call:
        """Return `call` without the id of an event that came on the stream of an earlier call.

        It is kept for `stream`: no server has to know of it.
        """
        after = dict(call.headers).get(_AFTER, "")
        if not self.calls.is_ours(after):
            return call
        self._again[call.id] = after
        return replace(call, headers=tuple(one for one in call.headers if one[0] != _AFTER))

    async def stream(self, permit: Permit) -> AsyncGenerator[ServerEvent, None]:
        """Return what a session is told, until its client goes or the session ends; it has begun.

        A client that comes back gets what it has missed of its session's stream, or the rest of the
        stream of a call.

        Raises:
            ProtocolError: It names no session.
            LimitExceeded: Its principal has too many streams.

        """
        if permit.session is None:
            raise ProtocolError("this stream is one of a session's", rpc_code=INVALID_REQUEST)
        after = self._again.pop(permit.call.id, "")
        rest = after and self.calls.asked_again(_of_calls(permit), after)
        if rest:
            return rest
        key = (permit.principal.key, permit.session)
        box = self._followers.box(permit, key[1], resumable=True)
        events = self._streamed(permit, key, box)
        await anext(events)  # begun, it gives its place back
        kept = self._followers.sessions.subscribed(*key)
        self._missing[permit.call.id] = [uri for uri in kept if uri not in box.uris]
        return events

    async def _streamed(
        self, permit: Permit, key: Key, box: Mailbox
    ) -> AsyncGenerator[ServerEvent, None]:
        after = dict(permit.call.headers).get(_AFTER)
        primes = permit.call.revision >= PRIMED_SINCE
        stream = _Stream(permit, frozenset(CHANGING), box, None)
        self._take(key, stream)
        try:
            yield _BEGUN
            kept = self._followers.sessions.subscribed(*key)
            await self._follow(permit, box, [uri for uri in kept if uri not in box.uris])
            await self._open(key, stream)
            async with aclosing(box.events(after, primes=primes)) as events:
                async for event in events:
                    yield event
        finally:
            self._close(key, stream)

    async def listen(self, permit: Permit) -> AsyncGenerator[ServerEvent, None]:
        """Yield the events of a subscriptions/listen, the first of which says what will be told."""
        message = permit.call.message
        key = (permit.principal.key, str(permit.call.id))
        box = self._followers.box(permit, key[1], resumable=False)
        lists = lists_wanted(message.params)
        stream = _Stream(permit, lists, box, message.id)
        try:
            self._take(key, stream)
            await self._follow(permit, box, subscribed(message.params))
            await self._open(key, stream)
            yield data_event(acknowledged(lists, sorted(box.uris), message.id))
            async with aclosing(box.events(None, primes=False)) as events:
                async for event in events:
                    yield event
            yield data_event(over(message))
        finally:
            self._close(key, stream)
            self._followers.forget(key)

    async def follow(self, permit: Permit, uri: str) -> None:
        """Let a session hear of our own resource at `uri`, durably.

        Raises:
            ProtocolError: There is no session.
            UnknownTool: There is no such resource for this client.
            AuditUnavailable: It could not be written.

        """
        if await self._described(permit, uri) is None:
            raise UnknownTool("there is no resource of this name")
        if permit.session is None:
            raise ProtocolError("subscriptions are a session's", rpc_code=INVALID_REQUEST)
        key = (permit.principal.key, permit.session)
        await self._followers.sessions.subscribe(*key, uri, person=permit.principal.person)
        await self._follow(permit, self._followers.box(permit, key[1], resumable=True), [uri])

    async def unfollow(self, permit: Permit, uri: str) -> None:
        """Let a session hear no more of our own resource at `uri`, durably.

        Raises:
            AuditUnavailable: It could not be written.

        """
        key = (permit.principal.key, permit.session or "")
        await self._followers.sessions.unsubscribe(*key, uri, person=permit.principal.person)
        box = self._followers.box(permit, key[1], resumable=True)
        box.uris.discard(uri)
        box.descriptions.pop(uri, None)

    async def _follow(self, permit: Permit, box: Mailbox, uris: Iterable[str]) -> None:
        """Begin to tell of those of `uris` that are our own; of what is so from now on."""
        if not _sees_list(permit.principal, Kind.TOOL):
            return
        for uri in filter(is_descriptions, uris):
            print_ = await self._described(permit, uri)
            if print_ is not None:
                box.uris.add(uri)
                box.descriptions[uri] = print_

    async def end(self, permit: Permit) -> None:
        """End a session, durably: its id is none any more, and nothing is told to it.

        Raises:
            AuditUnavailable: It could not be written.

        """
        key = (permit.principal.key, permit.session or "")
        await self._followers.sessions.end(*key, person=permit.principal.person)
        self._followers.forget(key)
        self.calls.end(_of_calls(permit))

    def missing(self, call: str) -> Sequence[str]:
        """Return, once, what the session of a stream that was opened by `call` is to hear of again.

        Nothing is kept of `call` then, whether or not its stream was opened.
        """
        self._again.pop(call, None)
        return self._missing.pop(call, ())

    def abandon(self, call: str) -> None:
        """Take note that `call`, whose subscriptions may have begun, will not listen after all."""
        self._followers.abandon(call)

    async def run(self) -> None:
        """Look for what has changed for ever. Ends only by cancellation."""
        while True:
            with suppress(TimeoutError):
                async with asyncio.timeout(_LOOK_S if self._streams else _SELDOM_S):
                    await self._followers.news.wait()
                    await asyncio.sleep(_SETTLE_S)
            self._followers.news.clear()
            await self.look()

    async def look(self) -> None:
        """Tell every stream what has changed for it, and forget sessions that nobody listens to."""
        version, clock = self._version(), asyncio.get_running_loop().time
        for key, stream in tuple(self._streams.items()):
            now = ((version, self._servers(stream.permit)), self._followers.relisted_for(key[0]))
            due = clock() - stream.asked_at >= _RECHECK_S
            if due or stream.looked != now or stream.box.pending:
                await self._look(key, stream, now)
                # However many there are: whoever calls meanwhile does not wait for all of them.
                await asyncio.sleep(0)
        self._followers.forget_left_before(clock() - self._idle_s)

    async def _look(self, key: Key, stream: _Stream, version: tuple[object, int]) -> None:
        """Tell one stream; whoever holds its token no longer, or otherwise, is told nothing more."""
        call = stream.permit.call
        try:
            principal = await self._authenticator.authenticate(call.credential, call.endpoint)
            if principal.key != key[0]:
                self._cut(key, stream)
                return
            stream.asked_at = asyncio.get_running_loop().time()
            principal = replace(principal, servers=self._servers(stream.permit))
            permit = replace(stream.permit, principal=principal)
            await self._tell_updates(permit, stream)
            if stream.looked is None or stream.looked[0] != version[0]:
                await self._tell_lists(permit, stream, stream.lists)
                await self._tell_descriptions(permit, stream)
            elif stream.looked != version:
                await self._tell_lists(permit, stream, stream.lists & {Kind.RESOURCE})
            stream.looked = version
        except (PolicyUnavailable, IdentityUnavailable):
            return  # what may be told nobody knows now; it is asked again
        except GatewayError:
            self._cut(key, stream)

    async def _tell_updates(self, permit: Permit, stream: _Stream) -> None:
        held = _sees_list(permit.principal, Kind.RESOURCE)
        for server, uri in tuple(stream.box.pending):
            named = public_uri(server, uri)
            seen = held and named in stream.box.uris and await self._sees(permit, server, uri)
            if stream.box.pending.pop((server, uri), 0) is None and seen:
                stream.box.put(updated(named, stream.subscription))

    async def _tell_lists(self, permit: Permit, stream: _Stream, lists: Iterable[Kind]) -> None:
        before = stream.box.prints or {}
        prints = await self._prints(permit, lists)
        stream.box.prints = {**before, **prints}
        for kind, print_ in prints.items():
            if before.get(kind, print_) != print_:
                stream.box.put(list_changed(kind, stream.subscription))

    async def _tell_descriptions(self, permit: Permit, stream: _Stream) -> None:
        before, held = stream.box.descriptions, _sees_list(permit.principal, Kind.TOOL)
        for uri in tuple(before) if held else ():
            print_ = await self._described(permit, uri)
            if print_ is not None and before.get(uri, print_) != print_:
                before[uri] = print_
                stream.box.put(updated(uri, stream.subscription))

    async def _prints(self, permit: Permit, lists: Iterable[Kind]) -> Mapping[Kind, str]:
        found = {}
        for kind in CHANGING:
            if kind in lists and _sees_list(permit.principal, kind):
                digest = hashlib.sha256()
                for text in await self._shown(permit, kind):
                    digest.update(text.encode() + b"\n")
                    if kind is Kind.RESOURCE:
                        times = self._followers.relisted_for(permit.principal.key, text)
                        digest.update(b"%d" % times)
                found[kind] = digest.hexdigest()
        return found

    def _take(self, key: Key, stream: _Stream) -> None:
        """Have a stream be one of those that are open, from now on; its session's former one ends.

        Raises:
            LimitExceeded: Its person has too many.

        """
        person = stream.permit.principal.person
        others = sum(
            one.permit.principal.person == person and held != key
            for held, one in self._streams.items()
        )
        if others >= _MOST_STREAMS:
            raise LimitExceeded("too many streams are open", detail=f"{others} of this person")
        if (before := self._streams.get(key)) is not None:
            before.box.cut()
        self._streams[key] = stream

    async def _open(self, key: Key, stream: _Stream) -> None:
        """Begin to tell a stream what changes; a first one is told what is so from now on.

        Raises:
            PolicyUnavailable: Nobody knows what its client is shown now.

        """
        if stream.box.prints is None:
            servers = self._servers(stream.permit)
            version = ((self._version(), servers), self._followers.relisted_for(key[0]))
            stream.box.prints = await self._prints(stream.permit, stream.lists)
            stream.looked = version
        self._followers.news.set()

    def _servers(self, permit: Permit) -> Selection:
        return self._chosen(permit.principal, permit.session, permit.run.id)

    def _cut(self, key: Key, stream: _Stream) -> None:
        """End a stream; what it did not tell waits for whoever comes back to the session."""
        if self._streams.get(key) is stream:
            stream.box.cut()

    def _close(self, key: Key, stream: _Stream) -> None:
        if self._streams.get(key) is stream:
            del self._streams[key]


def _of_calls(permit: Permit) -> Key:
    return (permit.principal.key, permit.call.session or "")


def _sees_list(principal: Principal, kind: Kind) -> bool:
    return not principal.scopes.isdisjoint(_SCOPES[kind])
