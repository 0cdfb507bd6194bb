"""What a warm `tools/call` and its records take of the processor: `python -m benchmarks.latency.cpu`.

`loop` is the event loop's thread, `all` the process; `16` are as many at once. Everything is divided by
one reference of the same run: `json.dumps` and SHA-256 of a record like those that are timed, taken
between any two steps. Of each the quickest tenth of the rounds counts, as others use the machine, too.
Sockets in front of the gateway have no part in it; the client to its upstream has.
"""

import asyncio
import hashlib
import json
import shutil
import statistics
import sys
import time
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import uvloop

from benchmarks.report import ROOT, print_table
from gateway.audit.record import RecordEncoder, Terms
from gateway.audit.redaction import Level, Levels, Redaction
from gateway.domain.audit import AuditRecord, RecordKind
from gateway.flow.redaction import RecordScreen
from gateway.storage.connection import Durability
from gateway.storage.store import Store
from tests.within import Within, prepared, within

FOLDER = ROOT / "var" / "cpu"
ROUNDS = 40
CALLS = 25
SWITCH_S = 0.0001
"""As the gateway's process has it."""
_WARM = 300
_REFERENCE = "reference_us"
_SAID = (
    b'{"jsonrpc":"2.0","id":1,"result":{"content":[{"type":"text","text":"ok 0123456789abcdef"}]}}'
)

Step = Callable[[], Awaitable[float]]
"""Gives the time of one of its pieces of work, in seconds."""


async def figures(folder: Path) -> dict[str, float]:
    """Return each step's time as a multiple of the reference's, of rounds that alternate."""
    found: dict[str, list[float]] = {}
    with prepared(folder / "gateway") as site:
        async with within(site) as gateway, _store(folder / "log") as store:
            kept = _Kept(store)
            steps: dict[str, Step] = {
                "record.encode": kept.encode,
                "record.append.loop": kept.loop(1),
                "record.append.all": kept.all(1),
                "record.append16.loop": kept.loop(16),
                "record.append16.all": kept.all(16),
                "call.loop": _called(gateway, time.thread_time, 1),
                "call.all": _called(gateway, time.process_time, 1),
                "call16.loop": _called(gateway, time.thread_time, 16),
                "call16.all": _called(gateway, time.process_time, 16),
            }
            for _ in range(_WARM):
                await gateway.call()
            for _ in range(ROUNDS):
                for name, step in steps.items():
                    found.setdefault(_REFERENCE, []).append(_reference())
                    found.setdefault(name, []).append(await step())
    quickest = {name: statistics.quantiles(times, n=10)[0] for name, times in found.items()}
    reference = quickest.pop(_REFERENCE)
    return {_REFERENCE: reference * 1e6} | {n: took / reference for n, took in quickest.items()}


def _called(gateway: Within, clock: Callable[[], float], at_once: int) -> Step:
    async def several() -> None:
        await asyncio.gather(*(gateway.call() for _ in range(at_once)))

    async def step() -> float:
        if at_once == 1:
            return await _timed(clock, CALLS, gateway.call)
        return await _timed(clock, CALLS // 5, several) / at_once

    return step


class _Kept:
    """Records like those of the call, one after the other."""

    def __init__(self, store: Store) -> None:
        self._audit = store.audit
        terms = Terms(
            keys=(bytes(32),),
            levels=Levels(Level(redaction=Redaction.HASHED)),
            screen=RecordScreen(()),
        )
        self._encoder = RecordEncoder(log_id="douane/0123456789abcdef", terms=terms)
        self._number = 0

    async def encode(self) -> float:
        records = [self._record() for _ in range(CALLS)]
        began = time.thread_time()
        for record in records:
            self._encoder.encode(record)
        return (time.thread_time() - began) / CALLS

    def loop(self, at_once: int) -> Step:
        return lambda: self._appended(time.thread_time, at_once)

    def all(self, at_once: int) -> Step:
        return lambda: self._appended(time.process_time, at_once)

    async def _appended(self, clock: Callable[[], float], at_once: int) -> float:
        async def several() -> None:
            await asyncio.gather(*(self._audit.append(self._record()) for _ in range(at_once)))

        one = self._one if at_once == 1 else several
        return await _timed(clock, CALLS, one) / at_once

    async def _one(self) -> None:
        await self._audit.append(self._record())

    def _record(self) -> AuditRecord:
        self._number += 1
        return record_like(self._number)


def record_like(number: int) -> AuditRecord:
    """Return what an allowed call leaves as its outcome."""
    fields: dict[str, Any] = {
        "endpoint": "/mcp/echo",
        "revision": "2026-07-28",
        "method": "tools/call",
        "server": "echo",
        "origin": "direct",
        "source_ip": "127.0.0.1",
        "principal": "c_0123456789abcdef",
        "client": "c_0123456789abcdef",
        "token_id": "0123456789abcdef0123456789abcdef",
        "roles": (),
        "run": f"r_{number % 40:032x}",
        "label_before": {"integrity": "trusted", "confidentiality": "internal"},
        "target": "echo",
        "arguments": {"text": f"0123456789abcdef {number}", "to": "emma@example.com"},
        "pin_digest": "sha256:" + "0" * 64,
        "effect": "read",
        "verdict": "allow",
        "policy_digest": "sha256:" + "1" * 64,
        "reasons": [{"code": "read", "message": "the tool only reads"}],
        "label_after": {"integrity": "trusted", "confidentiality": "internal"},
        "upstream_status": 200,
        "result": _SAID,
        "result_bytes": len(_SAID),
        "duration_us": 1234,
        "decision_id": f"d_{number:032x}",
    }
    name = f"{number:012x}{'0' * 20}"
    return AuditRecord(kind=RecordKind.OUTCOME, time=1.8e9 + number / 1000, id=name, fields=fields)


def _reference() -> float:
    """Return how long it takes to write a record down plainly and to hash that."""
    fields = dict(record_like(1).fields) | {"result": "h1:" + "0" * 64}
    began = time.thread_time()
    for _ in range(CALLS):
        hashlib.sha256(json.dumps(fields).encode()).digest()
    return (time.thread_time() - began) / CALLS


async def _timed(
    clock: Callable[[], float], times: int, work: Callable[[], Awaitable[Any]]
) -> float:
    began = clock()
    for _ in range(times):
        await work()
    return (clock() - began) / times


@asynccontextmanager
async def _store(folder: Path) -> AsyncIterator[Store]:
    store = await Store.open(
        folder, durability=Durability.PROCESS, deadline_s=60, clock=lambda: 1.8e9
    )
    try:
        yield store
    finally:
        await store.close()


def main() -> int:
    shutil.rmtree(FOLDER, ignore_errors=True)
    sys.setswitchinterval(SWITCH_S)
    with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
        found = runner.run(figures(FOLDER))
    print_table(("step", "times"), [(name, f"{told:.2f}") for name, told in found.items()])
    return 0


if __name__ == "__main__":
    sys.exit(main())
