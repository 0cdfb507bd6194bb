"""Looks at what every upstream shows, by itself and again and again, and hands it to a sink."""

import asyncio
import time
from collections.abc import Callable, Iterable, Mapping
from contextlib import suppress
from dataclasses import replace
from functools import partial
from typing import Final

from gateway.domain._value import value
from gateway.domain.tools import Kind, Profile, UpstreamId
from gateway.errors import GatewayError, UnknownTool, UpstreamFailed
from gateway.ports import CatalogSink, Clock
from gateway.upstream.breaker import Breaker
from gateway.upstream.client import (
    Conversation,
    NotSpoken,
    ServerInfo,
    Transport,
    all_capabilities,
    converse,
)
from gateway.upstream.exchange import Exchange
from gateway.upstream.faults import Challenged, unusable
from gateway.upstream.interfaces import read_interfaces
from gateway.upstream.listener import listen
from gateway.upstream.lists import LISTS, Listed, ListLimits, read_list
from gateway.upstream.local import LocalExchange
from gateway.upstream.settings import LocalSettings, UpstreamSettings
from gateway.wire.extensions import UI

_FIRST_RETRY_S: Final = 1.0
_PATIENCE_S: Final = 10.0
"""How long a call waits for lists to be read again."""
_SHORTEST_LIFE_S: Final = 10.0
"""However short a server says that its lists live: or else each call would read them all."""

_FAILURES = (GatewayError, ValueError)
"""What a crawl ends with when the upstream, or whoever takes its lists, is not well."""


@value
class CrawlStatus:
    """How it stands with one upstream, for operators."""

    server: UpstreamId
    seen_at: float | None
    """When all its lists were last read, in seconds since the epoch; `None` for never."""
    error: str
    """Why the last crawl failed; empty if it did not."""
    profiles: frozenset[Profile]
    """The families of revisions it was last heard to speak."""
    waits: bool = False
    """Whether it shows its lists to connected people alone: theirs are compared with the pins."""


class _Watched:
    """What the crawler remembers of one upstream."""

    def __init__(self, settings: UpstreamSettings | LocalSettings, breaker: Breaker | None) -> None:
        # A list needs no work to be done, so chatter ends as soon as silence does.
        timeouts = replace(settings.timeouts, hard_s=settings.timeouts.idle_s)
        self.server = settings.server
        self.per_person = settings.per_person
        self.reads_interfaces = UI in settings.extensions
        self.capabilities = all_capabilities(settings.extensions)
        self.wire = settings.limits.wire
        self.exchange: Transport
        self.listening: Exchange | None = None
        """For what the server says by itself; `None` where listening would keep a process for it."""
        if isinstance(settings, LocalSettings):
            self.exchange = LocalExchange(replace(settings, timeouts=timeouts))
        else:
            self.exchange = Exchange(replace(settings, timeouts=timeouts))
            self.listening = Exchange(settings)
        self.alone = asyncio.Lock()
        self.changed = asyncio.Event()
        self.status = CrawlStatus(
            server=settings.server, seen_at=None, error="", profiles=frozenset()
        )
        self.breaker = breaker
        self.failures = 0
        """In a row, up to now."""
        self.fresh_until: dict[tuple[Profile, Kind], float] = {}
        """Until when what a list showed may be relied on; seconds of the monotonic clock."""
        self.refreshing = asyncio.Lock()
        self.tried_at = float("-inf")
        """When a call last had the lists read again, in vain or not."""
        self.problem = ""
        """Why it was in vain."""


class Crawler:
    """Reads the lists of every upstream in every family of revisions that it speaks.

    Crawls are repeated every `recheck_s` seconds, soon after an upstream said, to us or to a
    client, that a list has changed, and with growing pauses while it fails.
    """

    def __init__(
        self,
        upstreams: Iterable[UpstreamSettings | LocalSettings],
        *,
        sink: CatalogSink,
        clock: Clock,
        recheck_s: float = 900.0,
        debounce_s: float = 1.0,
        fresh_s: float = 300.0,
        limits: ListLimits | None = None,
        monotonic: Clock = time.monotonic,
        breakers: Mapping[UpstreamId, Breaker] | None = None,
        relisted: Callable[[UpstreamId], None] | None = None,
    ) -> None:
        """`debounce_s` seconds of announcements become one crawl.

        A call may rely on a list for `fresh_s` seconds, or for its own `ttlMs` if that is shorter.
        `relisted` is called for each server that says to us that it has other resources.
        What calls wait for goes by `breakers`; crawls have pauses of their own.
        """
        found = breakers or {}
        self._watched = {one.server: _Watched(one, found.get(one.server)) for one in upstreams}
        self._sink = sink
        self._clock = clock
        self._recheck_s = recheck_s
        self._debounce_s = debounce_s
        self._fresh_s = fresh_s
        self._monotonic = monotonic
        self._limits = limits or ListLimits()
        self._relisted = relisted

    def announce(self, server: UpstreamId, kind: Kind) -> None:  # noqa: ARG002 - the directory's
        """Note that a list of `server` has changed; all its lists are read again soon."""
        watched = self._watched.get(server)
        if watched is not None:
            watched.changed.set()

    def status(self) -> tuple[CrawlStatus, ...]:
        """Return how it stands with each upstream, in the order of the configuration."""
        return tuple(watched.status for watched in self._watched.values())

    def spoken(self, server: UpstreamId) -> frozenset[Profile]:
        """Return the families of revisions that `server` was last heard to speak; none if unheard."""
        watched = self._watched.get(server)
        return frozenset() if watched is None else watched.status.profiles

    async def crawl(self, server: UpstreamId) -> None:
        """Read all lists of `server` once and hand over each that was read to its end.

        Raises:
            UnknownTool: No such server.
            UpstreamFailed: It did not answer, or a list was refused; the others were handed over.
            CredentialRequired: It wants a credential that we do not hold.
            GatewayError, ValueError: What the sink raised.

        """
        watched = self._watched.get(server)
        if watched is None:
            raise UnknownTool("There is no such server.", detail=f"server {server!r}")
        async with watched.alone:
            try:
                waits = await self._crawl(watched)
            except _FAILURES as error:
                watched.failures += 1
                watched.status = replace(watched.status, error=str(error))
                raise
            watched.failures = 0
            seen_at = watched.status.seen_at if waits else self._clock()
            watched.status = replace(watched.status, error="", seen_at=seen_at, waits=waits)

    async def refresh(self, server: UpstreamId, profile: Profile, kind: Kind) -> None:
        """Return if the list of `kind` was read recently enough; if not, once it is read again.

        Lists that are shown to connected people alone are compared when they ask for them.

        Raises:
            UnknownTool: No such server.
            UpstreamResting: Nobody tries to read it now, because the upstream has failed too often.
            UpstreamFailed: It cannot be read now.

        """
        watched = self._watched.get(server)
        if watched is None:
            raise UnknownTool("There is no such server.", detail=f"server {server!r}")
        if self._is_fresh(watched, profile, kind):
            return
        async with watched.refreshing:
            # Of many calls at once one reads it, or finds that it cannot be read.
            tried = self._monotonic() - watched.tried_at < _FIRST_RETRY_S
            if not tried and not self._is_fresh(watched, profile, kind):
                await self._try_again(watched, profile, kind)
        if not self._is_fresh(watched, profile, kind):
            raise UpstreamFailed(
                "the upstream server's list cannot be read, so nobody knows if it has changed",
                detail=f"{profile}, list of {kind}: {watched.problem}",
            )

    def _is_fresh(self, watched: _Watched, profile: Profile, kind: Kind) -> bool:
        until = watched.fresh_until.get((profile, kind))
        return until is not None and self._monotonic() < until

    async def _try_again(self, watched: _Watched, profile: Profile, kind: Kind) -> None:
        if watched.breaker is None:
            await self._read_again(watched, profile)
            return
        trial = watched.breaker.admit(None)
        try:
            spoken = await self._read_again(watched, profile)
            if self._is_fresh(watched, profile, kind):
                watched.breaker.answered(trial)
            elif spoken:
                watched.breaker.failed(None, trial, watched.problem)
        finally:
            watched.breaker.left(trial)

    async def _read_again(self, watched: _Watched, profile: Profile) -> bool:
        """Read what the server shows in one family of revisions, for a call that waits for it.

        Return whether it may speak that family: one that says that it does not is well.
        """
        watched.problem = ""
        try:
            async with asyncio.timeout(_PATIENCE_S), watched.alone:
                watched.problem = "; ".join(await self._read(watched, profile))
        except Challenged as error:
            if watched.per_person:
                self._note_unseen(watched)
            watched.problem = str(error)
        except NotSpoken as error:
            watched.problem = str(error) or type(error).__name__
            return False
        except (TimeoutError, *_FAILURES) as error:
            watched.problem = str(error) or type(error).__name__
        finally:
            watched.tried_at = self._monotonic()
        return True

    async def first_pass(self, timeout_s: float) -> None:
        """Crawl every upstream once; return when all were tried or time is up. Never raises."""
        with suppress(TimeoutError):
            async with asyncio.timeout(timeout_s), asyncio.TaskGroup() as group:
                for server in self._watched:
                    group.create_task(self._try(server))

    async def run(self) -> None:
        """Crawl for ever; an upstream that fails disturbs no other. Ends only by cancellation."""
        async with asyncio.TaskGroup() as group:
            for watched in self._watched.values():
                group.create_task(self._watch(watched))
                if watched.listening is not None:
                    for profile in Profile:
                        group.create_task(self._listen(watched, watched.listening, profile))

    async def aclose(self) -> None:
        """Close every connection."""
        for watched in self._watched.values():
            await watched.exchange.aclose()
            if watched.listening is not None:
                await watched.listening.aclose()

    async def _try(self, server: UpstreamId) -> None:
        with suppress(*_FAILURES):  # `status` tells it
            await self.crawl(server)

    async def _watch(self, watched: _Watched) -> None:
        while True:
            with suppress(TimeoutError):
                async with asyncio.timeout(self._pause_s(watched)):
                    await watched.changed.wait()
                    await asyncio.sleep(self._debounce_s)
            watched.changed.clear()
            await self._try(watched.server)

    async def _listen(self, watched: _Watched, exchange: Exchange, profile: Profile) -> None:
        heard = partial(self._heard, watched.server)
        clock = asyncio.get_running_loop().time
        while True:
            begun = clock()
            with suppress(NotSpoken, *_FAILURES):  # the next crawl tells what is wrong
                await listen(exchange, profile, watched.wire, heard)
            # One attempt per `recheck_s`: a stream that lasts is resumed at once, and a server
            # that offers none is not bothered.
            await asyncio.sleep(max(_FIRST_RETRY_S, begun + self._recheck_s - clock()))

    def _heard(self, server: UpstreamId, kind: Kind) -> None:
        self.announce(server, kind)
        if kind is Kind.RESOURCE and self._relisted is not None:
            self._relisted(server)

    def _pause_s(self, watched: _Watched) -> float:
        if watched.failures == 0:
            never = watched.status.seen_at is None and not watched.status.waits
            return 0.0 if never else self._recheck_s
        return min(self._recheck_s, _FIRST_RETRY_S * 2.0 ** min(watched.failures - 1, 32))

    async def _crawl(self, watched: _Watched) -> bool:
        """Read everything once; say whether it is shown to connected people alone."""
        spoken: set[Profile] = set()
        problems: list[str] = []
        for profile in (Profile.MODERN, Profile.LEGACY):
            try:
                problems += await self._read(watched, profile)
                spoken.add(profile)
            except NotSpoken:
                continue
            except Challenged:
                if watched.per_person:
                    self._note_unseen(watched)
                    return True
                raise
            except UpstreamFailed as error:
                problems.append(f"{profile}: {error.detail}")
        watched.status = replace(watched.status, profiles=frozenset(spoken))
        if problems:
            raise unusable("; ".join(problems))
        if not spoken:
            raise unusable("it speaks no revision that the gateway knows")
        return False

    async def _read(self, watched: _Watched, profile: Profile) -> list[str]:
        async with converse(
            watched.exchange, profile, watched.wire, capabilities=watched.capabilities
        ) as (conversation, info):
            return await self._hand_over(watched, conversation, info)

    async def _hand_over(
        self, watched: _Watched, conversation: Conversation, info: ServerInfo
    ) -> list[str]:
        """Give the sink what the conversation shows, and return what was refused.

        Raises:
            Challenged: It shows its lists to connected people alone.

        """
        profile = conversation.profile
        began = self._monotonic()
        await self._sink.seen(watched.server, profile, Kind.SERVER, [info.item], info.version)
        watched.fresh_until[profile, Kind.SERVER] = began + self._fresh_s
        problems = []
        for kind in LISTS:
            try:
                began = self._monotonic()
                listed = await read_list(conversation, info, kind, self._limits)
            except GatewayError as error:
                if watched.per_person and isinstance(error, Challenged):
                    raise
                problems.append(f"{profile}: {error.detail}")
            else:
                await self._sink.seen(watched.server, profile, kind, listed.items, info.version)
                watched.fresh_until[profile, kind] = began + self._life_s(profile, listed)
                if kind is Kind.TOOL and watched.reads_interfaces:
                    shown, unread = await read_interfaces(conversation, listed.items)
                    problems += (f"{profile}: {problem}" for problem in unread)
                    await self._sink.seen(
                        watched.server, profile, Kind.RESOURCE, shown, info.version
                    )
        return problems

    def _life_s(self, profile: Profile, listed: Listed) -> float:
        if listed.ttl_s is None or profile is not Profile.MODERN:
            return self._fresh_s
        return min(self._fresh_s, max(listed.ttl_s, _SHORTEST_LIFE_S))

    def _note_unseen(self, watched: _Watched) -> None:
        until = self._monotonic() + self._fresh_s
        watched.fresh_until = {(profile, kind): until for profile in Profile for kind in Kind}
