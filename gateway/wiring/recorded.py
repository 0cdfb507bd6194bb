"""Who follows the log for the life of the process, and how far each of them has come."""

import asyncio
import logging
import sqlite3
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from contextlib import AsyncExitStack, asynccontextmanager, closing, suppress
from functools import partial

from gateway.config import Config
from gateway.export.follower import Follower
from gateway.ports.following import CursorStore, Sink, Turn
from gateway.storage.baselines import FOLLOWER
from gateway.storage.following import Always
from gateway.turns import awaited_whole
from gateway.web.metrics import Metrics
from gateway.wiring.alerts import (
    Alerting,
    deviation_sink,
    follower_of,
    from_now,
    webhooks_of,
)
from gateway.wiring.background import begun, ended
from gateway.wiring.exporting import outlets_of
from gateway.wiring.stores import LogReader, Source, Stores
from gateway.wiring.witnessing import witnesses_of

logger = logging.getLogger(__name__)

_PAGE = 500
_LOOK_S = 0.5
_ANSWERED_S = 2.0
"""So long an answer of how late the log is stands by itself."""


class Recorded:
    """The followers of one process's log. All are named before they begin."""

    def __init__(
        self,
        current: Callable[[], Config],
        store: Stores,
        metrics: Metrics,
        *,
        turn: Turn | None = None,
    ) -> None:
        self._store = store
        self._turn = turn or store.log.turn()
        self._alone = isinstance(self._turn, Always)
        self._follows = False
        self._newest: Callable[[], int] = lambda: -1
        """Gives the leaf index of the log's last record."""
        told = webhooks_of(current, metrics)
        self.alerting = Alerting(current(), store, told, lambda: self.at_work)
        self._metrics = metrics
        self._sources: list[Source] = []
        self._first: list[Callable[[], Awaitable[None]]] = []
        self.followers: tuple[Follower, ...] = ()

    def follow(
        self,
        name: str,
        sink: Sink,
        *,
        page: int = _PAGE,
        cursors: CursorStore | None = None,
        of: Callable[[], Source] | None = None,
    ) -> None:
        """Have `sink` get every record, from `running` on; its cursor is kept under `name`.

        Where `cursors` are given they keep it, instead of those of all others. `page` is how many
        it gets at once, `of` gives what it follows instead of the records.
        """
        source = (of or self._store.log.records)()
        self.followers = (
            *self.followers,
            Follower(
                name,
                source=source,
                cursors=cursors or self._store.cursors,
                sink=sink,
                page=page,
            ),
        )
        self._sources.append(source)

    def first(self, act: Callable[[], Awaitable[None]]) -> None:
        """Have `act` done before anybody follows the log."""
        self._first.append(act)

    @asynccontextmanager
    async def running(self) -> AsyncIterator[None]:
        """Follow the log, until the context ends; what has not arrived then comes next time.

        Of gateways that share a log one follows it at a time.
        """
        for act in self._first:
            await act()
        async with AsyncExitStack() as stack:
            log = stack.enter_context(closing(self._store.log.reader()))
            self._newest = log.newest
            if not self._alone:
                looking = begun(self._look(log), "looking how long the log is, and how late")
                stack.push_async_callback(ended, looking)
            for source in self._sources:
                stack.callback(source.close)
            self._metrics.count_followers(
                {one.name: partial(self._behind, one) for one in self.followers},
                {one.name: partial(self._failing, one) for one in self.followers},
            )
            # Over PostgreSQL that waits for the server.
            stack.push_async_callback(asyncio.to_thread, self._turn.close)
            task = begun(self._take_turns(), "taking turns at following the log")
            stack.push_async_callback(ended, task)
            yield

    @property
    def at_work(self) -> tuple[Follower, ...]:
        """Who follows the log here; nobody while another gateway does."""
        return self.followers if self._follows or self._alone else ()

    def facts(self) -> Mapping[str, str]:
        """Return what /readyz says of followers whose sinks do not take records, which wait."""
        return {one.name: one.failing for one in self.at_work if one.failing}

    async def _look(self, log: LogReader) -> None:
        # A file answers at once; a server that is silent would hold up whoever asks.
        seen, waited, since = -1, 0.0, time.monotonic()
        self._newest = lambda: seen
        # What nobody can say gets later with the time.
        self._metrics.count_lag(lambda: waited + max(0.0, time.monotonic() - since - _ANSWERED_S))
        while True:
            with suppress(sqlite3.Error):
                seen = await awaited_whole(log.newest)
                waited = await awaited_whole(log.lag_s)
                since = time.monotonic()
            await asyncio.sleep(_LOOK_S)

    def _behind(self, follower: Follower) -> float:
        return float(max(self._newest() - follower.done, 0)) if follower in self.at_work else 0.0

    def _failing(self, follower: Follower) -> float:
        return float(follower in self.at_work and bool(follower.failing))

    async def _take_turns(self) -> None:
        while True:
            await self._turn.taken()
            async with self._following():
                await self._turn.lost()
            logger.warning("another gateway follows the log from now on, or none can just now")

    @asynccontextmanager
    async def _following(self) -> AsyncIterator[None]:
        async with AsyncExitStack() as stack:
            for follower in self.followers:
                task = begun(follower.run(), f"following the log as {follower.name}")
                stack.push_async_callback(ended, task)
            self._follows = True
            try:
                yield
            finally:
                self._follows = False


def recorded(current: Callable[[], Config], store: Stores, metrics: Metrics) -> Recorded:
    """Return all who follow the log of `store`; `current` gives the configuration in force."""
    config, found = current(), Recorded(current, store, metrics)
    if config.alerts.baselines == "off":
        found.first(store.baselines().forget)
    else:
        deviations = deviation_sink(config, store, metrics)
        found.follow(FOLLOWER, deviations, cursors=deviations)
    for name, webhook in found.alerting.told.items():
        found.follow(follower_of(name), webhook, cursors=from_now(store))
    for outlet in outlets_of(config, metrics):
        of = store.log.checkpoints if outlet.of_checkpoints else store.log.records
        found.follow(outlet.name, outlet.sink, page=outlet.page, of=of)
    for name, witness in witnesses_of(config, store):
        found.follow(name, witness, page=1, of=store.log.newest_checkpoint)
    return found
