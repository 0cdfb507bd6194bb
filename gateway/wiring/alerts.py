"""What learns from the log what is usual, and what tells people of what is not."""

import asyncio
import os
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import Any, Self
from urllib.parse import urlsplit

from gateway.admin.rows import rfc3339
from gateway.behaviour.baselines import Baselines
from gateway.behaviour.deviations import Kind
from gateway.config import Config
from gateway.config.alerts import signing_key
from gateway.errors import NotFound
from gateway.export.chats import Shape
from gateway.export.deviations import DeviationSink
from gateway.export.follower import Follower
from gateway.export.messages import ping
from gateway.export.webhooks import FromNow, Receiver, Webhook
from gateway.web.metrics import Metrics
from gateway.wiring.foundation import new_id, now
from gateway.wiring.posting import poster_to
from gateway.wiring.stores import Stores


def deviation_sink(config: Config, store: Stores, metrics: Metrics) -> DeviationSink:
    """Return what learns from the log what is usual, and records what is not."""
    for kind in Kind:
        metrics.deviations.labels(kind.value)  # 0 from the start: there is nothing to wait for
    return DeviationSink(
        baselines=partial(Baselines, learning_s=config.alerts.learning),
        store=store.baselines(),
        audit=store.audit,
        is_recorded=store.log.has,
        count=lambda kind: metrics.deviations.labels(kind.value).inc(),
        clock=now,
    )


def webhooks_of(current: Callable[[], Config], metrics: Metrics) -> Mapping[str, Webhook]:
    """Return the webhooks by their names; `current` gives the configuration in force."""
    config, found = current(), {}
    for name, one in config.alerts.webhooks.items():
        found[name] = Webhook(
            Receiver(
                name=name,
                url=one.url + ("" if one.path is None else one.path.resolve(os.environ).reveal()),
                key=None if one.secret is None else signing_key(one.secret.resolve(os.environ)),
                events=frozenset(one.events),
                shape=Shape(one.shape),
            ),
            poster=poster_to(one.url, config),
            approval_s=lambda: current().approvals.expire,
            clock=now,
            count=partial(_count, metrics, name),
            desk=lambda: _desk_of(current()),
        )
    return found


def _desk_of(config: Config) -> str:
    has_one = config.console.enabled and config.auth.mode != "external"
    return config.desk_url if has_one else ""


def from_now(store: Stores) -> FromNow:
    """Return the cursors of followers that do not begin with the first record."""
    return FromNow(store.cursors, store.log.newest)


def _count(metrics: Metrics, name: str, result: str) -> None:
    metrics.deliveries.labels(name, result).inc()


class Alerting:
    """The webhooks of a configuration, and how far each has come where the log is followed."""

    def __init__(
        self,
        config: Config,
        store: Stores,
        told: Mapping[str, Webhook],
        followers: Callable[[], Sequence[Follower]] = tuple,
    ) -> None:
        """Take `followers`, which gives those that run now."""
        self._config = config
        self._store = store
        self.told = told
        """The webhooks by their names."""
        self._followers = followers

    @classmethod
    def of_files(cls, config: Config, store: Stores) -> Self:
        """Return those of a gateway that is not running."""
        return cls(config, store, webhooks_of(lambda: config, Metrics()))

    def webhooks(self) -> Sequence[Mapping[str, Any]]:
        """Return one row a webhook; of its URL the host only, as its path may be a secret."""
        running = {one.name: one for one in self._followers()}
        newest = self._store.log.newest() if running else -1
        rows = []
        for name, one in self._config.alerts.webhooks.items():
            follower = running.get(follower_of(name))
            rows.append(
                {
                    "webhook": name,
                    "host": urlsplit(one.url).hostname,
                    "events": list(one.events),
                    "waiting": None if follower is None else max(newest - follower.done, 0),
                    "failing": None if follower is None else follower.failing,
                }
            )
        return rows

    async def ping(self, name: str) -> int:
        """Send a webhook a message that says nothing, and return the answer's status.

        Raises:
            NotFound: There is none of that name.
            EgressRefused: Its URL leads where the gateway does not go.
            UpstreamFailed: No answer in time.

        """
        webhook = self.told.get(name)
        if webhook is None:
            raise NotFound("there is no webhook of this name in the configuration")
        id_ = new_id()
        return (await webhook.send(id_, ping(id_, rfc3339(now()) or ""))).status

    async def baselines(self) -> Sequence[Mapping[str, Any]]:
        """Return how many of each view are known, and of how many enough is."""
        _, rows = await self._store.baselines().kept()
        found = Baselines(learning_s=self._config.alerts.learning)
        await asyncio.to_thread(found.restore, rows)
        learned = found.learned()
        return [
            {"view": view, "known": known, "learned": learned[view]}
            for view, known in found.size().items()
        ]


def follower_of(name: str) -> str:
    """Return the name under which a webhook follows the log."""
    return f"webhook {name}"
