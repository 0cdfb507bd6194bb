"""What lives as long as the process: the clock, fresh identifiers, and the store."""

import itertools
import os
import secrets
import time
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager, contextmanager
from functools import partial

from gateway.config import Config
from gateway.ports import Clock
from gateway.storage.connection import Durability
from gateway.storage.keeping import Keeping
from gateway.storage.runs import RunLimits
from gateway.storage.spooling import SpoolSettings
from gateway.storage.store import Store
from gateway.storage.writer import Signing
from gateway.wiring.redacting import held_by, levels_of
from gateway.wiring.stores import Stores

_SPOOL = "spool"
_SPOOL_BYTES = 64 << 20


class ProcessClock(partial[float]):
    """The clock of everything that is wired here, in seconds since the epoch: whichever it goes by.

    Every call looks at it a dozen times: to ask it is to ask that one, with no function of ours between.
    """

    @contextmanager
    def by(self, clock: Clock) -> Iterator[None]:
        """Go by that one until the block ends."""
        before = self.func
        self._ask(clock)
        try:
            yield
        finally:
            self._ask(before)

    def _ask(self, clock: Clock) -> None:
        self.__setstate__((clock, (), {}, None))  # type: ignore[attr-defined]


now = ProcessClock(time.time)

_PROCESS = secrets.token_hex(6)
_COUNT = itertools.count()


def new_id() -> str:
    """Return a fresh identifier, in hex: 48 bits of milliseconds, 48 of this process, a counter.

    Beginning with the time, ids of one moment are neighbours in an index. It is unique and not a
    secret: fresh randomness for every record would cost a system call each.
    """
    return f"{int(now() * 1000):012x}{_PROCESS}{next(_COUNT) & 0xFFFFFFFF:08x}"


@asynccontextmanager
async def open_store(config: Config) -> AsyncIterator[Stores]:
    """Take the data directory for this process, and open what is in it.

    Raises:
        ConfigError: Another process has it, or something in it cannot be used.

    """
    store = await Store.open(
        config.data_dir,
        durability=Durability(config.audit.durability),
        deadline_s=config.audit.deadline,
        levels=levels_of(config),
        held=held_by(config, os.environ),
        clock=now,
        keeping=keeping_of(config),
        runs=RunLimits(
            idle_s=config.runs.idle,
            most=config.runs.most,
            by_person=config.runs.of == "person",
        ),
    )
    try:
        yield store
    finally:
        await store.close()


def keeping_of(config: Config) -> Keeping:
    """Return when the log is signed, and where records go that it does not take."""
    audit = config.audit
    signing = Signing(every_s=audit.checkpoints.every, records=audit.checkpoints.records)
    if audit.on_failure != "spool":
        return Keeping(signing=signing)
    section = audit.spool
    path = config.data_dir / _SPOOL
    if section is not None and section.path is not None:
        path = section.path
    capacity = _SPOOL_BYTES if section is None else section.bytes
    return Keeping(signing=signing, spool=SpoolSettings(path=path, capacity=capacity))
