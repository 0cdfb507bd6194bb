"""Who follows the log for the life of the process, and how far each of them has come."""

from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from contextlib import AsyncExitStack, asynccontextmanager
from functools import partial

from gateway.config import Config
from gateway.export.follower import Follower
from gateway.ports.following import CursorStore, Sink
from gateway.storage.baselines import FOLLOWER, DurableBaselines
from gateway.storage.database import DATABASE
from gateway.storage.following import CheckpointSource, LogSource, NewestCheckpointSource
from gateway.storage.reader import AuditReader
from gateway.storage.store import Store
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
from gateway.wiring.witnessing import witnesses_of

_PAGE = 500


class Recorded:
    """The followers of one process's log. All are named before they begin."""

    def __init__(self, config: Config, store: Store, metrics: Metrics) -> None:
        self._store = store
        told = webhooks_of(config, metrics)
        self.alerting = Alerting(config, store, told, lambda: self.followers)
        self._metrics = metrics
        self._sources: list[LogSource] = []
        self._first: list[Callable[[], Awaitable[None]]] = []
        self.followers: tuple[Follower, ...] = ()

    def follow(
        self,
        name: str,
        sink: Sink,
        *,
        page: int = _PAGE,
        cursors: CursorStore | None = None,
        of: type[LogSource] = LogSource,
    ) -> None:
        """Have `sink` get every record, from `running` on; its cursor is kept under `name`.

        Where `cursors` are given they keep it, instead of those of all others. `page` is how many
        it gets at once, `of` what it follows: the log, its checkpoints, or the newest of these.
        """
        source = of(self._store.data_dir / DATABASE)
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
        """Follow the log, until the context ends; what has not arrived then comes next time."""
        for act in self._first:
            await act()
        async with AsyncExitStack() as stack:
            newest = self._reader(stack).newest
            for source in self._sources:
                stack.callback(source.close)
            self._metrics.count_followers(
                {one.name: partial(_behind, one, newest) for one in self.followers},
                {one.name: partial(_failing, one) for one in self.followers},
            )
            for follower in self.followers:
                task = begun(follower.run(), f"following the log as {follower.name}")
                stack.push_async_callback(ended, task)
            yield

    def facts(self) -> Mapping[str, str]:
        """Return what /readyz says of followers whose sinks do not take records, which wait."""
        return {one.name: one.failing for one in self.followers if one.failing}

    def _reader(self, stack: AsyncExitStack) -> AuditReader:
        reader = AuditReader.open(self._store.data_dir / DATABASE)
        stack.callback(reader.close)
        return reader


def recorded(config: Config, store: Store, metrics: Metrics) -> Recorded:
    """Return all who follow the log of `store`, by what `config` says."""
    found = Recorded(config, store, metrics)
    if config.alerts.baselines == "off":
        found.first(DurableBaselines(store.writer).forget)
    else:
        deviations = deviation_sink(config, store, metrics)
        found.follow(FOLLOWER, deviations, cursors=deviations)
    for name, webhook in found.alerting.told.items():
        found.follow(follower_of(name), webhook, cursors=from_now(store))
    for outlet in outlets_of(config, metrics):
        of = CheckpointSource if outlet.of_checkpoints else LogSource
        found.follow(outlet.name, outlet.sink, page=outlet.page, of=of)
    for name, witness in witnesses_of(config, store):
        found.follow(name, witness, page=1, of=NewestCheckpointSource)
    return found


def _behind(follower: Follower, newest: Callable[[], int]) -> float:
    return float(max(newest() - follower.done, 0))


def _failing(follower: Follower) -> float:
    return float(bool(follower.failing))
