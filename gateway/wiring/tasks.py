"""Calls whose answer is late: which servers may have them, and how they begin."""

import asyncio
import time
from collections.abc import Callable, Collection, Mapping, Sequence

from gateway.config import Config
from gateway.domain.tools import OWN, UpstreamId
from gateway.pipeline.late import LateBeginnings, LateLimits
from gateway.pipeline.late_handles import LateHandles
from gateway.pipeline.late_watch import WatchedTasks
from gateway.pipeline.rules import Rules
from gateway.ports.late import LateCalls
from gateway.upstream.settings import LocalSettings, UpstreamSettings
from gateway.web.carrier import Carrier
from gateway.wire.extensions import TASKS
from gateway.wire.jsontext import WireLimits
from gateway.wiring.foundation import new_id, now
from gateway.wiring.stores import Stores


def beginnings_of(config: Config, store: Stores, late: LateCalls, rules: Rules) -> LateBeginnings:
    """Return what keeps them as the configuration says."""
    return LateBeginnings(
        store=late,
        rules=rules,
        limits=LateLimits(longest_s=config.tasks.max_ttl, poll_s=config.tasks.poll_floor),
        seal_key=store.keys.seal,
        clock=now,
        new_id=new_id,
    )


def extensions_of(
    settings: Sequence[UpstreamSettings | LocalSettings],
) -> Mapping[UpstreamId, frozenset[str]]:
    """Return what is approved for each server; in front of all, tasks are if any may have them."""
    found = {one.server: one.extensions for one in settings}
    tasks = frozenset({TASKS}) & frozenset[str]().union(*found.values())
    return {**found, OWN: tasks}


def watching_of(
    servers: Collection[UpstreamId], handles: LateHandles, limits: WireLimits
) -> Callable[[Carrier], Carrier]:
    """Return what lets the clients of an endpoint hear of their tasks; where there are none, nothing."""

    def watching(carrier: Carrier) -> Carrier:
        if not servers:
            return carrier
        return WatchedTasks(
            carrier,
            servers=servers,
            handles=handles,
            limits=limits,
            clock=time.monotonic,
            pause=asyncio.sleep,
            new_id=new_id,
        )

    return watching
