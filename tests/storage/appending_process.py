"""Run by `test_crash`: appends as fast as it can, and says on stdout what was acknowledged."""

import asyncio
import os
import sys
import time
from pathlib import Path

from gateway.domain.audit import AuditRecord, RecordKind
from gateway.domain.flow import RunHint
from gateway.domain.identity import Principal
from gateway.domain.labels import STRICTEST_DEFAULT
from gateway.storage.store import Store

_PRODUCERS = 16


async def append_for_ever(store: Store, producer: int, generation: str) -> None:
    number = 0
    while True:
        number += 1
        name = f"{generation}.{producer}.{number}"
        record = AuditRecord(kind=RecordKind.SYSTEM, time=time.time(), id=name)
        entry = await store.audit.append(record)
        os.write(1, f"record {entry.leaf_index} {name}\n".encode())
        if number % 20 == 0:
            begun = await store.runs.of(_whose(name), RunHint())
            run = await store.runs.raise_label(begun.id, STRICTEST_DEFAULT, None)
            os.write(1, f"run {run.label.integrity.value} {run.id}\n".encode())


def _whose(name: str) -> Principal:
    return Principal(
        issuer="https://gateway.example",
        subject=name,
        client_id="agent",
        client_name="Agent",
        groups=frozenset(),
        scopes=frozenset(),
        token_id="t",
        expires_at=2e9,
        people=0,
    )


async def main(data_dir: Path, generation: str) -> None:
    store = await Store.open(data_dir, clock=time.time)
    async with asyncio.TaskGroup() as group:
        for producer in range(_PRODUCERS):
            group.create_task(append_for_ever(store, producer, generation))


if __name__ == "__main__":
    asyncio.run(main(Path(sys.argv[1]), sys.argv[2]))
