"""Keeping watch over the log for the life of the process: start, clock, silence, space, age."""

import asyncio
import logging
import os
import shutil
import time
from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import asynccontextmanager
from typing import Any

from gateway.config import Config
from gateway.domain._value import value
from gateway.domain.audit import AuditRecord, RecordKind
from gateway.errors import AuditUnavailable
from gateway.storage.recovery import FOUND
from gateway.wiring.background import begun, ended
from gateway.wiring.foundation import new_id, now
from gateway.wiring.retaining import retain
from gateway.wiring.stores import Stores

logger = logging.getLogger(__name__)

JUMP_S = 2.0
"""By how much the clock and the time that passed must differ to be told."""
LOW_BYTES = 256 << 20
"""With less free space than this, /readyz says so."""

_LOOK_S = 1.0


class ClockWatch:
    """Compares the clock that can be set with one that cannot."""

    def __init__(self, wall: Callable[[], float], steady: Callable[[], float]) -> None:
        self._wall = wall
        self._steady = steady
        self._before = wall(), steady()

    def jump(self) -> Mapping[str, float] | None:
        """Return how the clock has jumped since the last look; `None` if it has not."""
        (wall, steady), self._before = self._before, (self._wall(), self._steady())
        shown, passed = self._before[0] - wall, self._before[1] - steady
        if abs(shown - passed) < JUMP_S:
            return None
        return {
            "before": round(wall, 3),
            "after": round(self._before[0], 3),
            "passed_s": round(passed, 3),
            "jumped_s": round(shown - passed, 3),
        }


class Silence:
    """Says when nothing was recorded for too long."""

    def __init__(self, longest_s: float, steady: Callable[[], float]) -> None:
        self._longest_s = longest_s
        self._steady = steady
        self._recorded = -1
        self._since = steady()

    def broken_by(self, recorded: int) -> bool:
        """Whether it is time to write something; `recorded` is how many records there are."""
        if recorded != self._recorded:
            self._recorded, self._since = recorded, self._steady()
            return False
        if self._steady() - self._since < self._longest_s:
            return False
        self._since = self._steady()
        return True


@value
class Space:
    """What is left of the disk under the data directory."""

    free: int

    @classmethod
    def under(cls, store: Stores) -> "Space":
        return cls(free=shutil.disk_usage(store.data_dir).free)

    @property
    def low(self) -> str:
        """What to tell; empty while there is enough."""
        if self.free >= LOW_BYTES:
            return ""
        return f"{self.free >> 20} MiB are left for the audit log"


class Watch:
    """Records what happens to the log itself, and says in /readyz how it is."""

    def __init__(self, config: Config, store: Stores) -> None:
        self._config = config
        self._store = store
        self._clock = ClockWatch(now, time.monotonic)
        self._silence = Silence(config.audit.heartbeat, time.monotonic)

    @asynccontextmanager
    async def running(self) -> AsyncIterator[None]:
        """Record what the log was found like, and watch it until the context ends."""
        await self._tell_found()
        watching = begun(self._watch(), "watching the audit log")
        retaining = begun(retain(self._config, self._store), "retaining the audit log")
        try:
            yield
        finally:
            await ended(retaining)
            await ended(watching)

    def facts(self) -> Mapping[str, str]:
        """Return what /readyz says of the log besides whether it takes records."""
        told = {}
        spool = self._store.spool
        if spool is not None and spool.spooling:
            told["audit_spool"] = (
                f"{spool.spooled} records are in the spool, {spool.used:.0%} of it: {spool.why}"
            )
        if low := Space.under(self._store).low:
            told["audit_space"] = low
        return told

    @property
    def spooled(self) -> int:
        """How many records wait in the spool."""
        spool = self._store.spool
        return 0 if spool is None else spool.spooled

    @property
    def free(self) -> int:
        """How many bytes are free where the log is."""
        return Space.under(self._store).free

    async def _tell_found(self) -> None:
        found = self._store.found
        for sentence in found.remarkable:
            logger.warning("the audit log, as it was found: %s", sentence)
        code = FOUND[bool(found.remarkable)]
        message = "; ".join(found.remarkable) or f"{found.records} records, cleanly closed"
        await self._record(code, message, found.members)

    async def _watch(self) -> None:
        while True:
            await asyncio.sleep(_LOOK_S)
            if jump := self._clock.jump():
                message = f"the clock jumped by {jump['jumped_s']:.1f} s"
                logger.warning("%s: records are ordered by leaf_index", message)
                await self._record("clock_jump", message, jump)
            if self._silence.broken_by(self._store.recorded):
                await self._record("heartbeat", "nothing else was recorded", {"pid": os.getpid()})

    async def _record(self, code: str, message: str, evidence: Mapping[str, Any]) -> None:
        fields = {
            "code": code,
            "reasons": [{"code": code, "message": message}],
            "evidence": dict(evidence),
        }
        record = AuditRecord(kind=RecordKind.SYSTEM, time=now(), id=new_id(), fields=fields)
        try:
            await self._store.audit.append(record)
        except AuditUnavailable as error:
            logger.warning("%s could not be recorded: %s", code, error.detail)
