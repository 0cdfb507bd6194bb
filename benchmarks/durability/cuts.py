"""Power cuts under the product's own storage: what was acknowledged, and is it still there?"""

import asyncio
import itertools
import logging
import random
import shutil
import sqlite3
from collections.abc import Iterator, Sequence
from contextlib import closing, nullcontext, suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Self
from unittest import mock

from gateway.domain.audit import AuditRecord, RecordKind
from gateway.errors import AuditUnavailable, ConfigError
from gateway.storage import spooling
from gateway.storage.connection import Durability
from gateway.storage.database import DATABASE
from gateway.storage.keeping import AS_ALWAYS, Keeping
from gateway.storage.spooling import SpoolingLog, SpoolSettings
from gateway.storage.store import Store
from gateway.storage.verify import Finding, own_verifier, verify
from tests.storage.powercut import Cut, Recording, cuts, recorded

ROUNDS = 400
MOST_AT_ONCE = 12
KEYS = ("audit.key", "hmac.key", "seal.key")
SPOOL = "spool"
SPOOL_BYTES = 1 << 20
LOCKED, FREE = 12, 28
"""For how many rounds another connection has the database's lock, and for how many it has not."""
_NEAR = 20
"""Operations."""
NOW = 1_800_000_000.0


@dataclass
class Losses:
    """What some number of power cuts took."""

    durability: Durability
    cuts: int = 0
    losing: int = 0
    """After how many of them an acknowledged record was gone."""
    worst: int = 0
    """How many were gone at once."""
    broken: list[str] = field(default_factory=list)
    """Where the gateway could not go on, or the log did not verify."""
    recovered: int = 0
    """How many records came from the spool in the end, over all cuts."""


def cut_power(
    durability: Durability,
    count: int,
    folder: Path,
    *,
    rounds: int = ROUNDS,
    spool: bool = False,
) -> Losses:
    """Write to a log in `folder`, and cut the power at `count` moments of it.

    With `spool`, another connection takes the database's lock again and again, so that some of the
    records are acknowledged from the spool, and the power is cut while or soon after they are.

    Raises:
        Unsupported: This Python's SQLite cannot be recorded.

    """
    logging.getLogger(spooling.__name__).disabled = spool  # it would tell of each return
    data_dir, after = folder / "before", folder / "after"
    recording, begin = asyncio.run(_written(durability, data_dir, rounds, spool=spool))
    after.mkdir(mode=0o700)
    for name in KEYS:
        shutil.copy2(data_dir / name, after)
    losses = Losses(durability=durability)
    everywhere = range(begin, len(recording.operations))
    there = _near_the_spool(recording, everywhere) if spool else everywhere
    for cut in cuts(recording, count, moments=there, seed=11):
        cut.lay_out(after)
        asyncio.run(_brought_back(cut, after, losses, spool=spool))
        _judge(cut, after, losses)
    return losses


def _near_the_spool(recording: Recording, moments: Sequence[int]) -> Sequence[int]:
    """Return those moments that come so soon after the spool was written that it matters."""
    written = [n for n, one in enumerate(recording.operations) if one.name == SPOOL]
    return [n for n in moments if any(0 < n - one <= _NEAR for one in written)]


def _keeping(folder: Path, *, spool: bool) -> Keeping:
    settings = SpoolSettings(path=folder / SPOOL, capacity=SPOOL_BYTES)
    return Keeping(spool=settings) if spool else AS_ALWAYS


async def _brought_back(cut: Cut, folder: Path, losses: Losses, *, spool: bool) -> None:
    """Begin again with the journal, and the spool, that the cut left."""
    try:
        store = await Store.open(
            folder,
            durability=losses.durability,
            clock=lambda: NOW,
            keeping=_keeping(folder, spool=spool),
        )
    except ConfigError as error:
        losses.broken.append(f"cut at operation {cut.moment}: {error} {error.detail}")
        return
    if isinstance(store.audit, SpoolingLog):
        losses.recovered += store.audit.recovered
    await store.close()


async def _written(
    durability: Durability, data_dir: Path, rounds: int, *, spool: bool
) -> tuple[Recording, int]:
    """Return what storing some thousand records did, and where in it the first one began."""
    dice = random.Random(3)
    names = (f"r{number}" for number in itertools.count())
    with recorded() as recording, mock.patch.object(spooling, "_AGAIN_S", 0.01):
        store = await Store.open(
            data_dir,
            durability=durability,
            deadline_s=0.1 if spool else 30,
            clock=lambda: NOW,
            keeping=_keeping(data_dir, spool=spool),
        )
        begin = len(recording.operations)
        try:
            with _Locker(data_dir / DATABASE) if spool else nullcontext() as locker:
                for number in range(rounds):
                    if locker is not None and locker.turn(number):
                        await _until_spooling(dice, names, store, recording)
                    await asyncio.gather(*_some(dice, names, store, recording))
            end = len(recording.operations)
        finally:
            await store.close()  # before the recording ends, which is beneath it
    del recording.operations[end:]
    return recording, begin


class _Locker:
    """Another connection that has the database's write lock for some rounds, and then not."""

    def __init__(self, path: Path) -> None:
        self._connection = sqlite3.connect(path, isolation_level=None, timeout=5)
        self._locked = False

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._connection.close()

    def turn(self, number: int) -> bool:
        """Take the lock or let it go, as the round of that number asks; say if it was taken now."""
        locked = number % (LOCKED + FREE) >= FREE
        if locked != self._locked:
            self._connection.execute("BEGIN IMMEDIATE" if locked else "ROLLBACK")
            self._locked = locked
            return locked
        return False


async def _until_spooling(
    dice: random.Random, names: Iterator[str], store: Store, recording: Recording
) -> None:
    """Write until the journal alone does not do any more."""
    while isinstance(store.audit, SpoolingLog) and not store.audit.spooling:
        await asyncio.gather(*_some(dice, names, store, recording))
        await asyncio.sleep(0.01)


def _some(
    dice: random.Random, names: Iterator[str], store: Store, recording: Recording
) -> list["asyncio.Task[None]"]:
    async def append(name: str) -> None:
        fields = {"server": "notes", "target": "read_note", "decision_id": f"d_{name}"}
        record = AuditRecord(kind=RecordKind.OUTCOME, time=NOW, id=name, fields=fields)
        with suppress(AuditUnavailable):  # under a lock one may be refused: not acknowledged
            await store.audit.append(record)
            recording.acknowledge(name)

    count = dice.randrange(1, MOST_AT_ONCE)
    return [asyncio.create_task(append(next(names))) for _ in range(count)]


def _judge(cut: Cut, folder: Path, losses: Losses) -> None:
    """Compare what is there after the next start with what was acknowledged."""
    losses.cuts += 1
    found = verify(folder, own_verifier(folder))
    if found.finding is not Finding.OK:
        losses.broken.append(f"cut at operation {cut.moment}: {found.reason}")
    with closing(sqlite3.connect(folder / DATABASE)) as connection:
        stored = {name for (name,) in connection.execute("SELECT id FROM audit")}
    missing = sum(name not in stored for name in cut.acked)
    losses.losing += missing > 0
    losses.worst = max(losses.worst, missing)
