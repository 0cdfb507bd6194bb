"""Looking at one upstream's lists: as little as tells whether they are what they were."""

import asyncio
from collections.abc import Collection, Sequence
from typing import Any, Final

from gateway.domain.tools import Kind, Profile
from gateway.errors import GatewayError
from gateway.pins.ui import interface_item, named_interfaces
from gateway.ports import CatalogSink, Clock
from gateway.upstream.client import Conversation, NotSpoken, ServerInfo, converse
from gateway.upstream.faults import Challenged
from gateway.upstream.lists import LISTS, ListLimits, read_list
from gateway.upstream.watched import Kept, Place, Read, Watched

_LOOKS: Final = 5
"""Looks in one conversation, which begins anew after so many lives of a list: servers may decide what
they show when a session begins."""


FAILURES = (GatewayError, ValueError)
"""What a crawl ends with when the upstream, or whoever takes its lists, is not well."""
_MOST_INTERFACES: Final = 100
"""Interfaces of one server; each is a request at every crawl."""


class ListReader:
    """Reads lists and hands them to a sink, unless they are to the byte what the sink was shown."""

    def __init__(
        self, sink: CatalogSink, *, fresh_s: float, limits: ListLimits, monotonic: Clock
    ) -> None:
        self._sink = sink
        self._fresh_s = fresh_s
        self._limits = limits
        self._clock = monotonic

    async def whole(self, watched: Watched, profile: Profile) -> list[str]:
        """Read all that is shown in one family, in a conversation of its own; return what was refused.

        Raises:
            NotSpoken: It does not speak this family.
            Challenged: It shows its lists to connected people alone, or refuses our credential.
            UpstreamFailed, LimitExceeded: It cannot be read.

        """
        began = self._clock()
        async with converse(
            watched.server,
            watched.exchange,
            profile,
            watched.wire,
            capabilities=watched.capabilities,
        ) as (conversation, info):
            await self._take_server(watched, profile, info, began)
            return await self._look(watched, conversation, info, tuple(LISTS), anew=True)

    async def one(self, watched: Watched, place: Place) -> list[str]:
        """Read one list, or what the server says of itself; return what was refused; as `whole`.

        A conversation that goes on is used where there is one, and goes on where it can.
        """
        profile, kind = place
        kinds = () if kind is Kind.SERVER else (kind if kind in LISTS else Kind.TOOL,)
        # An interface may be another one while the list that names it is the same.
        anew = kind is Kind.RESOURCE
        async with watched.talking[profile]:
            kept = watched.kept.get(profile)
            if kept is not None and kinds and not self._is_old(kept):
                problems = await self._look(watched, kept.conversation, kept.info, kinds, anew=anew)
                if not problems:
                    return []
            # A session that was forgotten, and a connection that broke, are no answer.
            await watched.let_go(profile)
            return await self._begin(watched, profile, kinds, anew=anew)

    def _is_old(self, kept: Kept) -> bool:
        return self._clock() - kept.began >= _LOOKS * self._fresh_s

    async def _begin(
        self, watched: Watched, profile: Profile, kinds: Collection[Kind], *, anew: bool
    ) -> list[str]:
        conversation = Conversation(
            watched.server, watched.exchange, profile, watched.wire, watched.capabilities
        )
        keeps = False
        began = self._clock()
        try:
            info = await conversation.begin()
            await self._take_server(watched, profile, info, began)
            problems = await self._look(watched, conversation, info, kinds, anew=anew)
            keeps = watched.keeps and not problems
            if keeps:
                watched.kept[profile] = Kept(conversation=conversation, info=info, began=began)
            return problems
        finally:
            if not keeps:
                await conversation.end()

    async def _take_server(
        self, watched: Watched, profile: Profile, info: ServerInfo, began: float
    ) -> None:
        shown = [info.item]
        apart = await self._sink.seen(watched.server, profile, Kind.SERVER, shown, info.version)
        watched.note((profile, Kind.SERVER), Read(began=began, apart=apart))

    async def _look(
        self,
        watched: Watched,
        conversation: Conversation,
        info: ServerInfo,
        kinds: Collection[Kind],
        *,
        anew: bool = False,
    ) -> list[str]:
        """Give the sink what the conversation shows, and return what was refused.

        With `anew` all of it is compared, whether or not it is what was shown before.
        """
        profile = conversation.profile
        problems = []
        for kind in kinds:
            try:
                problems += await self._take(watched, conversation, info, kind, anew=anew)
            except GatewayError as error:
                if watched.per_person and isinstance(error, Challenged):
                    raise
                problems.append(f"{profile}: {error.detail}")
        return problems

    async def _take(
        self,
        watched: Watched,
        conversation: Conversation,
        info: ServerInfo,
        kind: Kind,
        *,
        anew: bool,
    ) -> list[str]:
        profile = conversation.profile
        pins = self._sink.compared_with(watched.server)
        last = watched.read.get((profile, kind))
        known = last.pages if last is not None and last.compared_with == pins and not anew else ()
        began = self._clock()
        listed = await read_list(conversation, info, kind, self._limits, known=known)
        problems: list[str] = []
        apart: Collection[str] = () if last is None else last.apart
        if listed.items is not None:
            apart = await self._sink.seen(watched.server, profile, kind, listed.items, info.version)
        watched.note(
            (profile, kind),
            Read(
                began=began,
                took_s=self._clock() - began,
                ttl_s=listed.ttl_s if profile is Profile.MODERN else None,
                pages=listed.pages,
                apart=apart,
                compared_with=pins,
            ),
        )
        if kind is Kind.TOOL and watched.reads_interfaces and listed.items is not None:
            shown, unread = await read_interfaces(conversation, listed.items)
            problems += (f"{profile}: {problem}" for problem in unread)
            apart = await self._sink.seen(
                watched.server, profile, Kind.RESOURCE, shown, info.version
            )
            if not unread:
                read = Read(began=began, took_s=self._clock() - began, apart=apart)
                watched.note((profile, Kind.RESOURCE), read)
        return problems


def outcome_of(reading: asyncio.Task[list[str]]) -> str:
    """Return why a reading that has ended was in vain; empty if it was not.

    Raises:
        NotSpoken: The upstream does not speak that family.

    """
    if reading.cancelled():
        return "nobody waited for it"
    try:
        return "; ".join(reading.result())
    except NotSpoken:
        raise
    except Exception as error:  # noqa: BLE001 - whoever read it has logged what is a bug
        return str(error) or type(error).__name__


async def read_interfaces(
    conversation: Conversation, tools: Sequence[Any]
) -> tuple[list[dict[str, Any]], list[str]]:
    """Return what can be pinned of the interfaces that `tools` name, and why others cannot be read.

    Raises:
        Challenged: They are shown to connected people alone.

    """
    uris = named_interfaces(tools)
    items: list[dict[str, Any]] = []
    problems = (
        [f"resources/read: more than {_MOST_INTERFACES} interfaces"]
        if len(uris) > _MOST_INTERFACES
        else []
    )
    for uri in uris[:_MOST_INTERFACES]:
        try:
            items.append(
                interface_item(uri, await conversation.request("resources/read", {"uri": uri}))
            )
        except Challenged:
            raise
        except GatewayError as error:
            problems.append(error.detail)
    return items, problems
