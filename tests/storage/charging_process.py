"""Run by `test_usage`: charges a quota with each record, and says on stdout what was acknowledged."""

import asyncio
import os
import sys
import time
from pathlib import Path

from gateway.domain.audit import AuditRecord, RecordKind
from gateway.storage.store import Store

_AT_ONCE = 16


async def charge_for_ever(store: Store, name: str) -> None:
    number = 0
    charge = {"quota": "mails/calls/day/", "under": [], "begin": 60, "amount": 1}
    while True:
        number += 1
        record = AuditRecord(
            kind=RecordKind.INTENT,
            time=time.time(),
            id=f"{name}.{number}",
            fields={"charged": [charge]},
        )
        await store.audit.append(record)
        os.write(1, b"1\n")


async def main(data_dir: Path, generation: str) -> None:
    store = await Store.open(data_dir, clock=time.time)
    async with asyncio.TaskGroup() as group:
        for one in range(_AT_ONCE):
            group.create_task(charge_for_ever(store, f"{generation}.{one}"))


if __name__ == "__main__":
    asyncio.run(main(Path(sys.argv[1]), sys.argv[2]))
