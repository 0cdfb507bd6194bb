"""Looks at what every upstream shows, by itself and again and again, and hands it to a sink."""

import asyncio
import logging
import random
import time
from collections.abc import Awaitable, Callable, Collection, Iterable, Mapping
from contextlib import suppress
from dataclasses import replace
from functools import partial
from typing import Final, Protocol

from gateway.domain.identity import Principal
from gateway.domain.tools import Kind, Profile, UpstreamId
from gateway.errors import CredentialRequired, UnknownTool, UpstreamFailed
from gateway.ports import CatalogSink, Clock
from gateway.upstream.breaker import Breaker
from gateway.upstream.client import NotSpoken
from gateway.upstream.exchange import Exchange
from gateway.upstream.faults import Challenged, unusable
from gateway.upstream.listener import listen
from gateway.upstream.lists import ListLimits
from gateway.upstream.personal import People, TheirLists
from gateway.upstream.reading import FAILURES, ListReader, outcome_of
from gateway.upstream.settings import LocalSettings, UpstreamSettings
from gateway.upstream.watched import CrawlStatus, Place, Read, Starter, Watched, starting_none

logger = logging.getLogger(__name__)

_FIRST_RETRY_S: Final = 1.0
_PATIENCE_S: Final = 10.0
"""How long a call waits for a list to be read again."""
_LATE_S: Final = 60.0
"""How long the reading goes on for the calls after it."""
_AHEAD: Final = (0.15, 0.4)
"""Which share of a list's life may be left when it is read again for calls to come, at most and at
least: never at the same moment for all servers."""
_SPREAD: Final = 0.1
"""Which share of the pause between crawls is left to chance."""

_PAUSE_S: Final = 5.0
"""Before a list is looked at again for calls to come, where that was in vain, and before anything that
met a bug is done again."""
_CHANCE: Final = random.SystemRandom().random


class Crawled(Protocol):
    """Told of a crawl that ended."""

    def __call__(self, server: UpstreamId, seconds: float, *, failed: bool) -> None: ...


class Crawler:
    """Reads the lists of every upstream in every family of revisions that it speaks.

    Crawls are repeated every `recheck_s` seconds, soon after an upstream said, to us or to a
    client, that a list has changed, and with growing pauses while it fails. A list that calls rely
    on is looked at before they may rely on it no more.
    """

    def __init__(
        self,
        upstreams: Iterable[UpstreamSettings | LocalSettings],
        *,
        sink: CatalogSink,
        clock: Clock,
        recheck_s: float = 900.0,
        debounce_s: float = 1.0,
        fresh_s: float = 60.0,
        limits: ListLimits | None = None,
        monotonic: Clock = time.monotonic,
        breakers: Mapping[UpstreamId, Breaker] | None = None,
        relisted: Callable[[UpstreamId], None] | None = None,
        known: Mapping[UpstreamId, Watched] | None = None,
        people: People | None = None,
        chance: Callable[[], float] = _CHANCE,
        crawled: Crawled | None = None,
        start: Starter = starting_none,
    ) -> None:
        """`debounce_s` seconds of announcements become one crawl.

        A call may rely on a list for `fresh_s` seconds, or for its own `ttlMs` if that is shorter.
        `relisted` is called for each server that says to us that it has other resources.
        What calls wait for goes by `breakers`; crawls have pauses of their own.
        What is `known` of an upstream that is the same as before is taken over.
        `people` are shown the lists of upstreams that are `per_person`.
        `chance` gives a number from 0 to 1.
        `crawled` is told of every crawl that ended: its server, its seconds and whether it failed.
        `start` starts servers that the gateway starts itself.
        """
        self._breakers = breakers or {}
        self._watched = {one.server: _taken_over(one, known or {}, start) for one in upstreams}
        self._sink = sink
        self._clock = clock
        self._recheck_s = recheck_s
        self._debounce_s = debounce_s
        self._fresh_s = fresh_s
        self._monotonic = monotonic
        self._reader = ListReader(
            sink, fresh_s=fresh_s, limits=limits or ListLimits(), monotonic=monotonic
        )
        self._relisted = relisted
        if people is None and any(one.per_person for one in self._watched.values()):
            raise ValueError("what is per person is read in people's names")
        self._people = people
        self._chance = chance
        self._crawled = crawled
        self._running: asyncio.Task[None] | None = None
        self._readings: dict[tuple[Watched, Place], asyncio.Task[list[str]]] = {}
        """Those that are under way. Who takes over reads by themselves: here they go to our own sink."""

    @property
    def known(self) -> Mapping[UpstreamId, Watched]:
        """What is known of each upstream, for whoever takes over."""
        return self._watched

    def hand_over(self) -> None:
        """Crawl no more, as another one does: calls that are under way may still rely on lists."""
        if self._running is not None:
            self._running.cancel()

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
            Exception: What the sink raised, or a bug that the upstream has found.

        """
        watched = self._watched.get(server)
        if watched is None:
            raise UnknownTool("There is no such server.", detail=f"server {server!r}")
        async with watched.alone:
            began = self._monotonic()
            try:
                waits = await self._crawl(watched)
            except Exception as error:
                watched.failures += 1
                told = str(error) or type(error).__name__
                watched.status = replace(watched.status, error=told)
                self._tell(server, began, failed=True)
                raise
            self._tell(server, began, failed=False)
            watched.failures = 0
            watched.crawled_at = self._monotonic()
            seen_at = watched.status.seen_at if waits else self._clock()
            watched.status = replace(watched.status, error="", seen_at=seen_at, waits=waits)

    def _tell(self, server: UpstreamId, began: float, *, failed: bool) -> None:
        if self._crawled is not None:
            self._crawled(server, self._monotonic() - began, failed=failed)

    async def refresh(
        self,
        server: UpstreamId,
        profile: Profile,
        kind: Kind,
        principal: Principal | None = None,
        *,
        sends: bool = True,
    ) -> Collection[str]:
        """Return if the list of `kind` was read recently enough; if not, once it is read again.

        Of an upstream that is `per_person` it is the list that `principal` is shown. Without a
        credential of theirs nothing can be sent, where it is the gateway that `sends`, and so there
        is nothing to compare; whoever else sends may have one. Returns the names under which the list
        shows something else than what is in force.

        Raises:
            UnknownTool: No such server.
            UpstreamResting: Nobody tries to read it now, because the upstream has failed too often.
            UpstreamFailed: It cannot be read now.
            CredentialRequired: The upstream does not take the person's credential, or they have
                none here and somebody else sends.

        """
        watched = self._watched.get(server)
        if watched is None:
            raise UnknownTool("There is no such server.", detail=f"server {server!r}")
        if watched.per_person and self._people is not None and principal is not None:
            try:
                watched = await self._people.lists_of(principal, watched)
            except CredentialRequired:
                if sends:
                    return ()
                raise
        place = profile, kind
        watched.used[place] = now = self._monotonic()
        watched.in_use.set()
        if watched.is_fresh(place, self._fresh_s, now):
            return watched.read[place].apart
        async with watched.refreshing[place]:
            # Of many calls at once one reads it, or finds that it cannot be read.
            tried = self._monotonic() - watched.tried_at.get(place, float("-inf")) < _FIRST_RETRY_S
            if not tried and not watched.is_fresh(place, self._fresh_s, self._monotonic()):
                who = principal if isinstance(watched, TheirLists) else None
                await self._try_again(watched, place, who)
        if not watched.is_fresh(place, self._fresh_s, self._monotonic()):
            watched.require_credential()
            raise UpstreamFailed(
                "the upstream server's list cannot be read, so nobody knows if it has changed",
                detail=f"{profile}, list of {kind}: {watched.problems.get(place, '')}",
            )
        return watched.read[place].apart

    async def _try_again(self, watched: Watched, place: Place, who: Principal | None) -> None:
        breaker = self._breakers.get(watched.server)
        if breaker is None:
            await self._read_again(watched, place)
            return
        trial = breaker.admit(who)
        try:
            spoken = await self._read_again(watched, place)
            if watched.is_fresh(place, self._fresh_s, self._monotonic()):
                breaker.answered(trial)
            elif spoken and not watched.is_refused:
                breaker.failed(who, trial, watched.problems[place])
        finally:
            breaker.left(trial)

    async def _read_again(self, watched: Watched, place: Place) -> bool:
        """Have a list read for a call that waits for it.

        Return whether it may speak that family: one that says that it does not is well.
        """
        under_way = self._under_way(watched, place)
        reading = under_way or self._reading(watched, place)
        problem = f"nothing within {_PATIENCE_S:g} s"
        try:
            # If it takes longer it goes on: a slow server's list is there for the next call.
            if (await asyncio.wait([reading], timeout=_PATIENCE_S))[0]:
                problem = outcome_of(reading)
        except NotSpoken as error:
            problem = str(error)
            return False
        except asyncio.CancelledError:
            if under_way is None:
                reading.cancel()
            raise
        finally:
            watched.problems[place] = problem
            watched.tried_at[place] = self._monotonic()
        return True

    def _reading(self, watched: Watched, place: Place) -> asyncio.Task[list[str]]:
        """Return the reading of a list that is under way, begun if none is."""
        reading = self._under_way(watched, place)
        if reading is None:
            reading = asyncio.create_task(self._read(watched, place))
            self._readings[watched, place] = reading
            reading.add_done_callback(partial(self._ended, watched, place))
        return reading

    def _under_way(self, watched: Watched, place: Place) -> asyncio.Task[list[str]] | None:
        reading = self._readings.get((watched, place))
        return None if reading is None or reading.done() else reading

    def _ended(self, watched: Watched, place: Place, reading: asyncio.Task[list[str]]) -> None:
        if self._readings.get((watched, place)) is reading:
            del self._readings[watched, place]
        if not reading.cancelled():
            reading.exception()  # whether or not anybody waits for it still

    async def _read(self, watched: Watched, place: Place) -> list[str]:
        try:
            async with asyncio.timeout(_LATE_S):
                return await self._reader.one(watched, place)
        except (NotSpoken, TimeoutError, *FAILURES):
            raise
        except Exception:
            logger.exception("a list of server %s met a bug", watched.server)
            raise

    async def first_pass(self, timeout_s: float) -> None:
        """Crawl once what nothing is known of; return when all were tried or time is up.

        Never raises.
        """
        with suppress(TimeoutError):
            async with asyncio.timeout(timeout_s), asyncio.TaskGroup() as group:
                for server, watched in self._watched.items():
                    if not watched.is_known:
                        group.create_task(self._try(server))

    async def run(self) -> None:
        """Crawl for ever; an upstream that fails disturbs no other. Ends only by cancellation.

        That is so whatever one of them fails of, a bug of the gateway's own too: it stays its own.
        """
        self._running = asyncio.current_task()
        async with asyncio.TaskGroup() as group:
            for watched in self._watched.values():
                for work in self._lasting(watched):
                    group.create_task(_for_ever(watched.server, work))

    def _lasting(self, watched: Watched) -> Iterable[Callable[[], Awaitable[None]]]:
        """Yield what is done for one upstream again and again."""
        yield partial(self._watch, watched)
        yield partial(self._keep_fresh, watched)
        if watched.listening is not None:
            for profile in Profile:
                yield partial(self._listen, watched, watched.listening, profile)

    async def aclose(self) -> None:
        """End what is being read, and close every connection that nobody has taken over."""
        readings = tuple(self._readings.values())
        for reading in readings:
            reading.cancel()
        await asyncio.gather(*readings, return_exceptions=True)
        for watched in self._watched.values():
            await watched.release()

    async def _try(self, server: UpstreamId) -> None:
        try:
            await self.crawl(server)
        except FAILURES:
            pass  # `status` tells it
        except Exception:
            logger.exception("the crawl of server %s met a bug", server)

    async def _watch(self, watched: Watched) -> None:
        with suppress(TimeoutError):
            async with asyncio.timeout(self._pause_s(watched)):
                await watched.changed.wait()
                await asyncio.sleep(self._debounce_s)
        watched.changed.clear()
        await self._try(watched.server)

    async def _keep_fresh(self, watched: Watched) -> None:
        """Look again at what a call relies on, before none may rely on it any more."""
        try:
            async with asyncio.timeout(self._fresh_s if watched.kept else None):
                await watched.in_use.wait()
        except TimeoutError:
            await self._let_go(watched)
            return
        watched.in_use.clear()
        due = self._due(watched)
        if due is None:
            return
        place, left_s = due
        await asyncio.sleep(left_s)
        watched.in_use.set()  # for the others
        reading = self._reading(watched, place)
        await asyncio.wait([reading])
        with suppress(NotSpoken):
            if outcome_of(reading):
                # Whoever calls next finds out what is wrong.
                await asyncio.sleep(_PAUSE_S)

    def _due(self, watched: Watched) -> tuple[Place, float] | None:
        """Return what is to be looked at next, of what a call relied on since, and in how long."""
        found = {
            place: self._left_s(read)
            for place, read in watched.read.items()
            if watched.used.get(place, float("-inf")) >= read.began
            and watched.is_fresh(place, self._fresh_s, self._monotonic())
        }
        if not found:
            return None
        place = min(found, key=lambda each: found[each])
        return place, max(found[place], 0.0)

    def _left_s(self, read: Read) -> float:
        life_s = read.life_s(self._fresh_s)
        least, most = _AHEAD
        ahead_s = life_s * (least + (most - least) * self._chance()) + read.took_s
        return read.began + life_s - ahead_s - self._monotonic()

    async def _let_go(self, watched: Watched) -> None:
        for profile in tuple(watched.kept):
            async with watched.talking[profile]:
                await watched.let_go(profile)

    async def _listen(self, watched: Watched, exchange: Exchange, profile: Profile) -> None:
        heard = partial(self._heard, watched.server)
        clock = asyncio.get_running_loop().time
        begun = clock()
        try:
            await listen(watched.server, exchange, profile, watched.wire, heard)
        except (NotSpoken, *FAILURES):
            pass  # the next crawl tells what is wrong
        except Exception:
            logger.exception("listening to server %s met a bug", watched.server)
        # One attempt per `recheck_s`: a stream that lasts is resumed at once, and a server that
        # offers none is not bothered.
        await asyncio.sleep(max(_FIRST_RETRY_S, begun + self._recheck_s - clock()))

    def _heard(self, server: UpstreamId, kind: Kind) -> None:
        self.announce(server, kind)
        if kind is Kind.RESOURCE and self._relisted is not None:
            self._relisted(server)

    def _pause_s(self, watched: Watched) -> float:
        if watched.failures == 0:
            if not watched.is_known:
                return 0.0
            pause_s = self._recheck_s * (1 - _SPREAD * self._chance())
            return max(0.0, watched.crawled_at + pause_s - self._monotonic())
        return min(self._recheck_s, _FIRST_RETRY_S * 2.0 ** min(watched.failures - 1, 32))

    async def _crawl(self, watched: Watched) -> bool:
        """Read everything once; say whether it is shown to connected people alone."""
        spoken: set[Profile] = set()
        problems: list[str] = []
        for profile in (Profile.MODERN, Profile.LEGACY):
            try:
                problems += await self._reader.whole(watched, profile)
                spoken.add(profile)
            except NotSpoken:
                continue
            except Challenged:
                if watched.per_person:
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


class SentElsewhere:
    """Catalogs for calls that somebody else sends: without a credential of the person's here nobody
    knows what they are shown, and that is no reason to let anything pass.
    """

    def __init__(self, crawler: Crawler) -> None:
        self._crawler = crawler

    async def refresh(
        self, server: UpstreamId, profile: Profile, kind: Kind, principal: Principal
    ) -> Collection[str]:
        """Do as `Crawler.refresh`, and raise where they have no credential."""
        return await self._crawler.refresh(server, profile, kind, principal, sends=False)


async def _for_ever(server: UpstreamId, work: Callable[[], Awaitable[None]]) -> None:
    while True:
        try:
            await work()
        except Exception:
            logger.exception("watching server %s met a bug", server)
            await asyncio.sleep(_PAUSE_S)


def _taken_over(
    settings: UpstreamSettings | LocalSettings, known: Mapping[UpstreamId, Watched], start: Starter
) -> Watched:
    before = known.get(settings.server)
    same = before is not None and before.holders and before.settings == settings
    watched = before if before is not None and same else Watched(settings, start)
    watched.holders += 1
    return watched
