"""Intents put by some who wait, as one gateway does: `python -m benchmarks.replicas.putting ADDRESS NAME PRODUCERS SECONDS`.

It says that it is ready, begins once it is told to, and ends with its figures as JSON.
"""

import asyncio
import json
import sys
import time
from dataclasses import replace

from benchmarks.audit.throughput import SWITCH_S, event, produced
from gateway.domain.premises import NOTHING
from tests.storage.postgres.shared import Replica, replica, resting_on

RUNS = 64
"""Which producers' calls are in, each of another owner."""


async def put(made: Replica, producers: int, seconds: float, *, name: str) -> dict[str, float]:
    """Let `producers` put intents that rest on their runs, over and over."""

    async def one(number: int) -> None:
        record = replace(event(number), id=f"{name}{number:012x}")
        await made.ledger.put(record, resting_on(f"r{number % RUNS}"), NOTHING)

    began = time.process_time()
    figures = await produced(one, seconds, producers)
    return {**figures, "cpu_s": time.process_time() - began}


async def main(address: str, name: str, producers: str, seconds: str) -> None:
    """Put, and print what came of it."""
    sys.setswitchinterval(SWITCH_S)
    async with replica(address, name) as made:
        print("ready", flush=True)
        await asyncio.to_thread(sys.stdin.readline)
        print(json.dumps(await put(made, int(producers), float(seconds), name=name)), flush=True)


if __name__ == "__main__":
    asyncio.run(main(*sys.argv[1:]))
