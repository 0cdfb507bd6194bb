"""Power cuts under the product's own storage: what was acknowledged, and is it still there?"""

import asyncio
import random
import shutil
import sqlite3
from collections.abc import Iterator
from contextlib import closing
from dataclasses import dataclass, field
from pathlib import Path

from gateway.domain.audit import AuditRecord, RecordKind
from gateway.errors import ConfigError
from gateway.storage.connection import Durability
from gateway.storage.database import DATABASE, Database
from gateway.storage.keys import audit_key
from gateway.storage.store import Store
from gateway.storage.verify import Finding, own_verifier, verify
from tests.storage.powercut import Cut, Recording, cuts, recorded

ROUNDS = 400
MOST_AT_ONCE = 12
KEYS = ("audit.key", "hmac.key", "seal.key")
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


def cut_power(durability: Durability, count: int, folder: Path, *, rounds: int = ROUNDS) -> Losses:
    """Write to a log in `folder`, and cut the power at `count` moments of it.

    Raises:
        Unsupported: This Python's SQLite cannot be recorded.

    """
    data_dir, after = folder / "before", folder / "after"
    recording, begin = asyncio.run(_written(durability, data_dir, rounds))
    after.mkdir(mode=0o700)
    for name in KEYS:
        shutil.copy2(data_dir / name, after)
    losses = Losses(durability=durability)
    for cut in cuts(recording, count, begin=begin, seed=11):
        cut.lay_out(after)
        _judge(cut, after, losses)
    return losses


async def _written(durability: Durability, data_dir: Path, rounds: int) -> tuple[Recording, int]:
    """Return what storing some thousand records did, and where in it the first one began."""
    dice = random.Random(3)
    names = (f"r{number}" for number in range(rounds * MOST_AT_ONCE))
    with recorded() as recording:
        store = await Store.open(data_dir, durability=durability, deadline_s=30, clock=lambda: NOW)
        begin = len(recording.operations)
        for _ in range(rounds):
            await asyncio.gather(*_some(dice, names, store, recording))
        end = len(recording.operations)
        await store.close()
    del recording.operations[end:]
    return recording, begin


def _some(
    dice: random.Random, names: Iterator[str], store: Store, recording: Recording
) -> list["asyncio.Task[None]"]:
    async def append(name: str) -> None:
        fields = {"server": "notes", "target": "read_note", "decision_id": f"d_{name}"}
        record = AuditRecord(kind=RecordKind.OUTCOME, time=NOW, id=name, fields=fields)
        await store.audit.append(record)
        recording.acknowledge(name)

    count = dice.randrange(1, MOST_AT_ONCE)
    return [asyncio.create_task(append(next(names))) for _ in range(count)]


def _judge(cut: Cut, folder: Path, losses: Losses) -> None:
    """Begin again on what the cut left, as the gateway does, and compare."""
    losses.cuts += 1
    try:
        Database.open(
            folder, durability=losses.durability, wait_s=1.0, key=audit_key(folder)
        ).close()
    except ConfigError as error:
        losses.broken.append(f"cut at operation {cut.moment}: {error}")
    found = verify(folder, own_verifier(folder))
    if found.finding is not Finding.OK:
        losses.broken.append(f"cut at operation {cut.moment}: {found.reason}")
    with closing(sqlite3.connect(folder / DATABASE)) as connection:
        stored = {name for (name,) in connection.execute("SELECT id FROM audit")}
    missing = sum(name not in stored for name in cut.acked)
    losses.losing += missing > 0
    losses.worst = max(losses.worst, missing)
