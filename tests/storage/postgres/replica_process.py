"""A replica that makes calls over and over, and writes down what was acknowledged: two records a call.

python -m tests.storage.postgres.replica_process ADDRESS NAME FILE
"""

import asyncio
import sys
from pathlib import Path

from gateway.domain.audit import RecordKind
from gateway.domain.flow import RunId
from gateway.domain.premises import NOTHING
from gateway.errors import AuditUnavailable, Changed
from tests.storage.postgres.shared import Replica, raising, record, replica, resting_on

_CALLERS = 8


async def calls(made: Replica, caller: int, name: str, told: Path) -> None:
    run = RunId(f"r{caller % 4}")
    with told.open("a", buffering=1) as file:
        for n in range(10**9):
            try:
                known = made.runs.find(run)
                version = 0 if known is None else known.run.version
                intent = f"{name}-{caller}-{n}"
                await made.ledger.put(
                    record(intent, decision_id=intent), resting_on(run, version), NOTHING
                )
                file.write(f"{intent}\n")
                outcome = record(f"{intent}-out", RecordKind.OUTCOME, decision_id=intent)
                raised = raising(run, 0, n % 4, tool=f"t{n % 40}")
                await made.ledger.conclude(outcome, raised)
                file.write(f"{intent}-out\n")
            except (Changed, AuditUnavailable):
                await asyncio.sleep(0.01)


async def main(address: str, name: str, told: str) -> None:
    async with replica(address, name, width=2, deadline_s=5.0) as made:
        await asyncio.gather(*(calls(made, n, name, Path(f"{told}.{n}")) for n in range(_CALLERS)))


if __name__ == "__main__":
    asyncio.run(main(*sys.argv[1:]))
