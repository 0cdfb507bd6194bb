"""What outlives a reload although it is only in memory."""

from collections.abc import Awaitable, Callable, Mapping
from dataclasses import field
from typing import Any

from gateway.builtin.call_streams import CallStreams
from gateway.builtin.mailboxes import Mailboxes
from gateway.dlp.values import ValueMemory
from gateway.domain._value import value
from gateway.domain.tools import UpstreamId
from gateway.pipeline.conversations import Conversations
from gateway.pipeline.debts import Debts
from gateway.pipeline.memory import ProvenanceMemory
from gateway.pipeline.quotas import Quotas
from gateway.ports import Upstream
from gateway.ports.allowance import Allowance
from gateway.upstream.breaker import Breaker
from gateway.upstream.settings import LocalSettings, UpstreamSettings
from gateway.upstream.watched import Watched


@value
class Link:
    """A way to a server that stays what it was, with what is known of it."""

    settings: UpstreamSettings | LocalSettings
    breaker: Breaker
    upstream: Upstream | None
    """`None` where each configuration has its own, which asks for people's credentials."""


class Links:
    """The ways to servers: a configuration that leaves a server as it was takes its way over.

    With it come its connections, the processes and the sessions in them, how often it has failed, and
    what it was seen to show.
    """

    def __init__(self) -> None:
        self.watched: Mapping[UpstreamId, Watched] = {}
        """Of the configuration in force."""
        self._links: dict[UpstreamId, Link] = {}
        self._holders: dict[int, int] = {}

    def take(
        self,
        settings: UpstreamSettings | LocalSettings,
        new: Callable[[], Link],
    ) -> Link:
        """Return the way to a server, made where there is none; it goes back with `give_back`."""
        link = self._links.get(settings.server)
        if link is None or link.settings != settings:
            link = new()
        self._links[settings.server] = link
        self._holders[id(link)] = self._holders.get(id(link), 0) + 1
        return link

    async def give_back(self, link: Link) -> None:
        """Take note that one configuration less needs it; after the last one it is closed."""
        self._holders[id(link)] -= 1
        if self._holders[id(link)]:
            return
        del self._holders[id(link)]
        if self._links.get(link.settings.server) is link:
            del self._links[link.settings.server]
        close: Callable[[], Awaitable[Any]] | None = getattr(link.upstream, "aclose", None)
        if close is not None:
            await close()


@value
class Carried:
    """What outlives a reload although it is only in memory: what runs have seen, what is open."""

    memory: ProvenanceMemory
    conversations: Conversations
    limits: Allowance
    quotas: Quotas
    values: ValueMemory
    boxes: Mailboxes
    calls: CallStreams
    debts: Debts
    """What planes have not reported yet."""
    links: Links = field(default_factory=Links)
