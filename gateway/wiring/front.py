"""What the endpoint in front of all servers has besides the one path: clients of its own, and notices."""

import asyncio
from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import asynccontextmanager

from gateway.builtin.call_streams import CallStreams
from gateway.builtin.descriptions import Descriptions
from gateway.builtin.followers import Followers
from gateway.builtin.mailboxes import Mailboxes
from gateway.builtin.notices import Notices
from gateway.builtin.offers import Offers, Sight
from gateway.builtin.shelf import Shelf
from gateway.builtin.showing import Showing
from gateway.config import Config
from gateway.domain.tools import UpstreamId
from gateway.pipeline.selections import Selections
from gateway.ports import Authenticator, PolicyEngine, Upstream
from gateway.upstream.crawler import Crawler
from gateway.upstream.own_client import OwnClient
from gateway.upstream.settings import LocalSettings, UpstreamSettings
from gateway.web.call_metrics import MeteredUpstream
from gateway.web.metrics import Metrics
from gateway.wiring.background import begun, ended
from gateway.wiring.stores import Stores


class Front:
    """The gateway's own clients, and those whom they tell of what servers say by themselves."""

    def __init__(self, store: Stores, boxes: Mailboxes, calls: CallStreams) -> None:
        self.clients: dict[UpstreamId, OwnClient] = {}
        self.calls = calls
        self.levels: dict[str, str] = {}
        """What clients want to hear of what servers log, by session."""
        self.followers = Followers(
            boxes=boxes, sessions=store.sessions, leaving=self.clients.values
        )

    def connect(
        self,
        config: Config,
        settings: Sequence[UpstreamSettings | LocalSettings],
        upstreams: Mapping[UpstreamId, Upstream],
        metrics: Metrics,
    ) -> None:
        """Make a client of each server; none connects before somebody calls."""
        for one in settings:
            self.clients[one.server] = OwnClient(
                one.server,
                MeteredUpstream(one.server, upstreams[one.server], metrics),
                wire=one.limits.wire,
                levels=self.levels,
                listeners=self.followers,
                apart=not isinstance(one, LocalSettings),
                idle_s=config.limits.session_idle,
                ping_s=config.limits.upstream_ping,
                timeouts=one.timeouts,
                limits=one.limits,
            )

    def notices(
        self,
        config: Config,
        store: Stores,
        *,
        offers: Offers,
        shelf: Shelf,
        descriptions: Descriptions,
        sight: Sight,
        authenticator: Authenticator,
        policy: PolicyEngine,
        crawler: Crawler,
        selections: Selections,
    ) -> Notices:
        """Return what tells clients of changes, once it runs."""
        showing = Showing(
            offers=offers, shelf=shelf, descriptions=descriptions, pins=store.pins, sight=sight
        )
        servers = tuple(sorted(offers.servers))

        def version() -> object:
            return (store.pins.version, policy.digest, *map(crawler.spoken, servers))

        return Notices(
            followers=self.followers,
            calls=self.calls,
            authenticator=authenticator,
            shown=showing.of,
            sees=showing.sees,
            described=descriptions.print_of,
            chosen=selections.seen_by,
            version=version,
            idle_s=config.limits.session_idle,
        )

    async def aclose(self) -> None:
        """End every session with a server."""
        await asyncio.gather(*(client.aclose() for client in self.clients.values()))


@asynccontextmanager
async def telling(notices: Notices) -> AsyncIterator[None]:
    """Tell clients of changes for as long as this is open; the calls whose streams they keep end with it."""
    task = begun(notices.run(), "telling clients of changes")
    try:
        yield
    finally:
        await ended(task)
        await notices.calls.cut(notices.here)
