"""How many records a second processes put over one PostgreSQL, and what ordering one of them costs."""

import json
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import closing
from dataclasses import dataclass

from benchmarks.latency.machine import tree_cpu_s
from benchmarks.replicas.putting import RUNS
from benchmarks.report import ROOT
from gateway.storage.postgres.base import made
from gateway.storage.postgres.connection import connect
from gateway.storage.postgres.sequencer import Leader
from tests.storage.postgres.shared import following, with_runs

PRODUCERS = 64
"""Of all processes together."""
PROCESSES = (1, 2, 4, 8)
_PATIENCE_S = 120


@dataclass(frozen=True, kw_only=True)
class Puts:
    """What so many processes have put."""

    processes: int
    per_s: float
    p50_ms: float
    p99_ms: float
    client_us: float
    """CPU of the processes a record."""
    server_us: float
    """CPU of PostgreSQL a record."""


@dataclass(frozen=True, kw_only=True)
class Ordering:
    """What it takes to order records that are there already."""

    records: int
    wall_us: float
    """A record, by one leader that does nothing else."""
    client_us: float
    server_us: float


def prepared(address: str) -> None:
    """Make the tables in an empty database, and runs to rest on."""
    made(address)
    with closing(connect(address, application="report")) as owner:
        with_runs(owner, *(f"r{n}/o{n}" for n in range(RUNS)))


def put_by(address: str, processes: int, seconds: float, postmaster: int) -> Puts:
    """Let so many processes put, all at once; nobody orders meanwhile."""
    started = [_started(address, n, PRODUCERS // processes, seconds) for n in range(processes)]
    for one in started:
        _line(one)
    before_s = tree_cpu_s(postmaster)
    for one in started:
        if one.stdin is not None:
            one.stdin.write("go\n")
            one.stdin.flush()
    told = [json.loads(_line(one)) for one in started]
    server_s = tree_cpu_s(postmaster) - before_s
    for one in started:
        one.wait(_PATIENCE_S)
    records = sum(figures["records"] for figures in told)
    return Puts(
        processes=processes,
        per_s=sum(figures["per_s"] for figures in told),
        p50_ms=max(figures["p50_ms"] for figures in told),
        p99_ms=max(figures["p99_ms"] for figures in told),
        client_us=sum(figures["cpu_s"] for figures in told) / records * 1e6,
        server_us=server_s / records * 1e6,
    )


def ordering(address: str) -> Ordering:
    """Order what lies in the tray, and say what that took."""
    with closing(connect(address, application="report")) as connection:
        leader = following(connection)
        backend = connection.info.backend_pid
        records, began_s = 0, time.perf_counter()
        client_s, server_s = time.thread_time(), tree_cpu_s(backend, alone=True)
        for taken in _taken(leader):
            records += taken
        wall_s = time.perf_counter() - began_s
        client_s = time.thread_time() - client_s
        server_s = tree_cpu_s(backend, alone=True) - server_s
    return Ordering(
        records=records,
        wall_us=wall_s / records * 1e6,
        client_us=client_s / records * 1e6,
        server_us=server_s / records * 1e6,
    )


def _taken(leader: Leader) -> Iterator[int]:
    """Yield how many records each step took, with room for them made as in a process of its own."""
    while taken := leader.step():
        yield taken
        leader.keep()
    leader.sign()


def _started(address: str, number: int, producers: int, seconds: float) -> "subprocess.Popen[str]":
    words = (address, f"p{number}x", str(producers), str(seconds))
    return subprocess.Popen(
        [sys.executable, "-m", "benchmarks.replicas.putting", *words],
        cwd=ROOT,
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    )


def _line(process: "subprocess.Popen[str]") -> str:
    if process.stdout is None:
        raise ValueError("its output is not read")
    return process.stdout.readline()
