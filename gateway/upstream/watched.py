"""What is known of one upstream's lists, for as long as it stays the same upstream."""

import asyncio
from collections import defaultdict
from collections.abc import Callable, Collection
from dataclasses import replace
from typing import Final, TypeAlias

from gateway.domain._value import value
from gateway.domain.tools import Kind, Profile, UpstreamId
from gateway.errors import ConfigError
from gateway.upstream.client import Conversation, ServerInfo, Transport, all_capabilities
from gateway.upstream.exchange import Exchange
from gateway.upstream.lists import Page
from gateway.upstream.settings import LocalSettings, UpstreamSettings
from gateway.wire.extensions import UI

_SHORTEST_LIFE_S: Final = 10.0
"""However short a server says that its lists live: or else each call would read them all."""

Place: TypeAlias = tuple[Profile, Kind]
"""One of an upstream's lists."""

Starter: TypeAlias = Callable[[LocalSettings], Transport]
"""Returns what carries messages to a server that the gateway starts itself."""


def starting_none(settings: LocalSettings) -> Transport:
    """Carry nothing to a server that has to be started.

    Raises:
        ConfigError: Always.

    """
    raise ConfigError(
        f"server {settings.server!r} would have to be started, and nothing here starts any"
    )


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


@value
class Read:
    """A list as it was last read."""

    began: float
    """When it was asked for, in seconds of the monotonic clock: what changed since is not in it."""
    took_s: float = 0.0
    ttl_s: float | None = None
    """How long its server says that it stays so."""
    pages: tuple[Page, ...] = ()
    apart: Collection[str] = ()
    """Names under which it shows something else than what is in force; empty for what has no pin."""
    compared_with: object = None
    """What the pins were then: of the same list nothing new is to be said while they are the same."""

    def life_s(self, fresh_s: float) -> float:
        """Return for how long a call may rely on it, where none relies on any for longer."""
        if self.ttl_s is None:
            return fresh_s
        return min(fresh_s, max(self.ttl_s, _SHORTEST_LIFE_S))


@value
class Kept:
    """A conversation that goes on, for the next look."""

    conversation: Conversation
    info: ServerInfo
    began: float


class Watched:
    """What the crawlers remember of one upstream. One that takes over from another shares it."""

    def __init__(
        self, settings: UpstreamSettings | LocalSettings, start: Starter = starting_none
    ) -> None:
        # A list needs no work to be done, so chatter ends as soon as silence does.
        timeouts = replace(settings.timeouts, hard_s=settings.timeouts.idle_s)
        self.settings = settings
        self.server = settings.server
        self.per_person = settings.per_person
        self.reads_interfaces = UI in settings.extensions
        self.capabilities = all_capabilities(settings.extensions)
        self.wire = settings.limits.wire
        self.exchange: Transport
        self.listening: Exchange | None = None
        """For what the server says by itself; `None` where listening would keep a process for it."""
        self.keeps = not isinstance(settings, LocalSettings)
        """Whether a conversation goes on: a process shows what its files said when it was started."""
        if isinstance(settings, LocalSettings):
            self.exchange = start(replace(settings, timeouts=timeouts))
        else:
            self.exchange = Exchange(replace(settings, timeouts=timeouts))
            self.listening = Exchange(settings)
        self.holders = 0
        """Crawlers that share it; the last one closes it."""
        self.alone = asyncio.Lock()
        self.changed = asyncio.Event()
        self.status = CrawlStatus(
            server=settings.server, seen_at=None, error="", profiles=frozenset()
        )
        self.failures = 0
        """In a row, up to now."""
        self.crawled_at = float("-inf")
        self.read: dict[Place, Read] = {}
        self.used: dict[Place, float] = {}
        """When a call last relied on each."""
        self.in_use = asyncio.Event()
        """Set whenever a call relies on one."""
        self.refreshing: defaultdict[Place, asyncio.Lock] = defaultdict(asyncio.Lock)
        self.tried_at: dict[Place, float] = {}
        """When a call last had one read again, in vain or not."""
        self.problems: dict[Place, str] = {}
        """Why it was in vain."""
        self.talking: defaultdict[Profile, asyncio.Lock] = defaultdict(asyncio.Lock)
        self.kept: dict[Profile, Kept] = {}

    @property
    def is_known(self) -> bool:
        """Whether its lists were ever read, or are none to read for us alone."""
        return self.status.seen_at is not None or self.status.waits

    def is_fresh(self, place: Place, fresh_s: float, now: float) -> bool:
        """Whether a call may rely on what was read of a list, which nobody may for over `fresh_s`."""
        read = self.read.get(place)
        return read is not None and now < read.began + read.life_s(fresh_s)

    def note(self, place: Place, read: Read) -> None:
        """Take note of what was read, unless what is known was asked for later."""
        last = self.read.get(place)
        if last is None or read.began >= last.began:
            self.read[place] = read

    @property
    def is_refused(self) -> bool:
        """Whether it cannot be read for want of a person's credential."""
        return False

    def require_credential(self) -> None:
        """Return unless it cannot be read for want of a person's credential."""

    async def let_go(self, profile: Profile) -> None:
        """End the conversation that goes on in one family, if one does."""
        kept = self.kept.pop(profile, None)
        if kept is not None:
            await kept.conversation.end()

    async def release(self) -> None:
        """Take note that one crawler less has to do with it; after the last one it is closed."""
        self.holders -= 1
        if self.holders:
            return
        for profile in tuple(self.kept):
            await self.let_go(profile)
        await self.exchange.aclose()
        if self.listening is not None:
            await self.listening.aclose()
