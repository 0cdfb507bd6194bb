"""How many records a second are durable, how long each waits, and what else could confirm them."""

import asyncio
import os
import shutil
import statistics
import sys
import time
from collections.abc import Awaitable, Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path

from gateway.audit.merkle import CompactRange
from gateway.audit.record import Entry, RecordEncoder, Terms
from gateway.audit.redaction import Level, Levels, Redaction
from gateway.domain.audit import AuditRecord, RecordKind
from gateway.flow.redaction import RecordScreen
from gateway.storage.connection import Durability
from gateway.storage.database import Database, JobOutcome
from gateway.storage.keys import audit_key
from gateway.storage.store import Store

PRODUCERS = 64
SWITCH_S = 0.0001
"""As the gateway's process has it."""
NOW = 1_800_000_000.0
APPENDED = bytes(4096)

Figures = dict[str, float]


def all_of(folder: Path, seconds: float = 4.0) -> dict[str, Figures]:
    """Measure everything on the disk under `folder`, one after the other."""
    return {
        "fsync": one_fsync(folder, min(seconds, 2.0)),
        "group_commit": group_commit(folder, seconds),
        "one_commit_a_record": one_commit_a_record(folder, seconds),
        "segment_file": segment_file(folder, seconds),
    }


def group_commit(folder: Path, seconds: float, *, producers: int = PRODUCERS) -> Figures:
    """Let `producers` append and wait until each record is durable and in the log, over and over."""
    with _empty(folder / "group") as data_dir, _switching():
        return asyncio.run(_grouped(data_dir, seconds, producers))


def one_commit_a_record(folder: Path, seconds: float) -> Figures:
    """Let each record have a transaction of its own; `p50_ms` and `p99_ms` are of one commit."""
    with _empty(folder / "single") as data_dir:
        made = encoder()
        key = audit_key(data_dir)
        database = Database.open(data_dir, durability=Durability.POWER, wait_s=5, key=key)
        waits: list[float] = []
        began = time.perf_counter()
        while (start := time.perf_counter()) - began < seconds:
            database.commit([(made.encode(event(len(waits))), JobOutcome())], [])
            waits.append(time.perf_counter() - start)
        figures = _figures(waits, time.perf_counter() - began)
        database.close()
        return figures


def segment_file(folder: Path, seconds: float, *, producers: int = PRODUCERS) -> Figures:
    """Let a file confirm: append, and one fdatasync for all who wait. Nothing can be queried."""
    with _empty(folder / "segment") as data_dir, _switching():
        return asyncio.run(_segmented(data_dir, seconds, producers))


def one_fsync(folder: Path, seconds: float = 2.0) -> Figures:
    """Append 4 KiB and wait for the disk, alone."""
    with _empty(folder / "fsync") as data_dir:
        waits: list[float] = []
        with (data_dir / "file").open("ab", buffering=0) as file:
            began = time.perf_counter()
            while (start := time.perf_counter()) - began < seconds:
                file.write(APPENDED)
                os.fdatasync(file.fileno())
                waits.append(time.perf_counter() - start)
        return _figures(waits, time.perf_counter() - began)


async def _grouped(data_dir: Path, seconds: float, producers: int) -> Figures:
    store = await Store.open(
        data_dir, durability=Durability.POWER, deadline_s=60, clock=lambda: NOW
    )

    async def append(number: int) -> None:
        await store.audit.append(event(number))

    figures = await produced(append, seconds, producers)
    await store.close()
    return figures


async def _segmented(data_dir: Path, seconds: float, producers: int) -> Figures:
    made = encoder()
    with (data_dir / "segment").open("ab", buffering=0) as file, ThreadPoolExecutor(1) as pool:
        segment = _Segment(file.fileno(), pool)

        async def append(number: int) -> None:
            await segment.append(made.encode(event(number)))

        return await produced(append, seconds, producers)


class _Segment:
    """An append-only file and a tree beside it."""

    def __init__(self, descriptor: int, pool: ThreadPoolExecutor) -> None:
        self._descriptor = descriptor
        self._pool = pool
        self._tree = CompactRange()
        self._waiting: list[tuple[Entry, asyncio.Future[None]]] = []
        self._writing: asyncio.Task[None] | None = None

    async def append(self, entry: Entry) -> None:
        durable = asyncio.get_running_loop().create_future()
        self._waiting.append((entry, durable))
        if self._writing is None:
            self._writing = asyncio.create_task(self._write())
        await durable

    async def _write(self) -> None:
        loop = asyncio.get_running_loop()
        while self._waiting:
            batch, self._waiting = self._waiting, []
            await loop.run_in_executor(self._pool, self._put, [entry for entry, _ in batch])
            for _, durable in batch:
                durable.set_result(None)
        self._writing = None

    def _put(self, entries: list[Entry]) -> None:
        self._tree = self._tree.extend(entry.leaf for entry in entries)
        os.write(self._descriptor, b"".join(entry.body + b"\n" for entry in entries))
        os.fdatasync(self._descriptor)


async def produced(
    append: Callable[[int], Awaitable[None]], seconds: float, producers: int
) -> Figures:
    waits: list[float] = []
    began = time.perf_counter()

    async def produce(producer: int) -> None:
        number = producer
        while (start := time.perf_counter()) - began < seconds:
            await append(number)
            waits.append(time.perf_counter() - start)
            number += producers

    await asyncio.gather(*(produce(producer) for producer in range(producers)))
    return _figures(waits, time.perf_counter() - began)


def encoder() -> RecordEncoder:
    """Return an encoder as a log has it by default."""
    levels = Levels(Level(redaction=Redaction.HASHED))
    terms = Terms(keys=(bytes(32),), levels=levels, screen=RecordScreen(()))
    return RecordEncoder(log_id="douane/0123456789abcdef", terms=terms)


def event(number: int) -> AuditRecord:
    """Return what an allowed call leaves, with the members that such a record has."""
    fields = {
        "principal": f"user{number % 50}",
        "client": "c_0123456789abcdef",
        "endpoint": "/mcp/mail",
        "revision": "2026-07-28",
        "method": "tools/call",
        "server": "mail",
        "target": "send_email",
        "effect": "egress",
        "pin_digest": "sha256:" + "0" * 64,
        "arguments": {"recipients": ["emma@example.com"], "subject": "Hello", "body": "x" * 80},
        "roles": ["user"],
        "source_ip": "127.0.0.1",
        "token_id": "0123456789abcdef0123456789abcdef",
        "label_before": {"integrity": "trusted", "confidentiality": "private"},
        "verdict": "allow",
        "reasons": [{"code": "own_domain", "message": "every recipient is of our domain"}],
        "policy_digest": "sha256:" + "1" * 64,
        "decision_id": f"{number:032x}",
        "run": f"r_{number % 40:032x}",
        "origin": "direct",
        "trace_id": f"{number:032x}",
    }
    name = f"{number:012x}{'0' * 20}"
    return AuditRecord(kind=RecordKind.INTENT, time=NOW + number / 1000, id=name, fields=fields)


def _figures(waits: list[float], seconds: float) -> Figures:
    waits.sort()
    return {
        "records": len(waits),
        "per_s": round(len(waits) / seconds, 1),
        "p50_ms": round(statistics.median(waits) * 1e3, 3),
        "p99_ms": round(waits[int(len(waits) * 0.99)] * 1e3, 3),
    }


@contextmanager
def _empty(folder: Path) -> Iterator[Path]:
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir(parents=True, mode=0o700)
    try:
        yield folder
    finally:
        shutil.rmtree(folder)


@contextmanager
def _switching() -> Iterator[None]:
    before = sys.getswitchinterval()
    sys.setswitchinterval(SWITCH_S)
    try:
        yield
    finally:
        sys.setswitchinterval(before)
