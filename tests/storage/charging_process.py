"""Run by `test_usage`: charges a quota and owes a result with each call, and says what was acknowledged.

A call is a line on stdout, and so is the outcome that every second one has, after a hyphen.
"""

import asyncio
import os
import sys
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from gateway.domain.audit import AuditRecord, RecordKind
from gateway.storage.store import Store

_AT_ONCE = 16


async def charge_for_ever(store: Store, name: str) -> None:
    number = 0
    charge = {"quota": "mails/calls/day/", "under": [], "begin": 60, "amount": 1}
    owes = {"integrity": "untrusted", "confidentiality": "private", "until": 9e9}
    call = {"plane": "edge", "server": "mail", "target": "search", "run": "r_1"}
    while True:
        number += 1
        call["decision_id"] = id_ = f"{name}.{number}"
        await put(store, RecordKind.INTENT, id_, {**call, "charged": [charge], "owes": owes})
        os.write(1, f"{id_}\n".encode())
        if number % 2 == 0:
            await put(store, RecordKind.OUTCOME, f"{id_}-", call)
            os.write(1, f"-{id_}\n".encode())


async def put(store: Store, kind: RecordKind, id_: str, fields: Mapping[str, Any]) -> None:
    await store.audit.append(AuditRecord(kind=kind, time=time.time(), id=id_, fields=fields))


async def main(data_dir: Path, generation: str) -> None:
    store = await Store.open(data_dir, clock=time.time)
    async with asyncio.TaskGroup() as group:
        for one in range(_AT_ONCE):
            group.create_task(charge_for_ever(store, f"{generation}.{one}"))


if __name__ == "__main__":
    asyncio.run(main(Path(sys.argv[1]), sys.argv[2]))
