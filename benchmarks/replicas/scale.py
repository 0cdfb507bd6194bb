"""What gateways over one PostgreSQL carry together, beside one gateway with its SQLite file."""

import shutil
import statistics
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from pathlib import Path

from benchmarks.audit.throughput import group_commit
from benchmarks.latency.load import Window, call
from benchmarks.latency.machine import tree_cpu_s
from benchmarks.latency.targets import NO_LIMITS, SERVER, Target, echo_server, server_at
from benchmarks.replicas.members import secret
from benchmarks.replicas.records import Ordering, Puts, ordering, prepared, put_by
from benchmarks.replicas.server import Server, server
from gateway.storage.kek import new_key
from tests.running import Running, endpoint_of, running_gateway
from tests.servers.process import free_port

GATEWAYS = (1, 2, 4, 8)
CONNECTIONS = 16
"""Of all callers together: as many calls are under way."""
ROUNDS = 3
MODELLED = (10, 100)
RECORDS_A_CALL = 2
_WARM_S = 2
_IDLE_S = 3.0

Table = tuple[Sequence[str], Sequence[Sequence[object]]]


@dataclass(frozen=True, kw_only=True)
class Carried:
    """What so many gateways have carried, by the middle of some windows."""

    name: str
    gateways: int
    calls_per_s: float
    p50_ms: float
    p99_ms: float
    gateway_us: float
    """CPU of the gateways a call."""
    server_us: float
    """CPU of PostgreSQL a call."""
    idle_server_us: float
    """CPU of PostgreSQL a second, while nobody calls."""


@dataclass
class Scale:
    """All that was measured."""

    carried: list[Carried] = field(default_factory=list)
    puts: list[Puts] = field(default_factory=list)
    sqlite: Mapping[str, float] = field(default_factory=dict)
    ordering: Ordering | None = None
    wrong: list[str] = field(default_factory=list)

    @property
    def figures(self) -> dict[str, float]:
        """What the report's file says of it."""
        found: dict[str, float] = {}
        for one in self.carried:
            found[f"calls.{one.name}.per_s"] = round(one.calls_per_s, 1)
            found[f"calls.{one.name}.gateway_us"] = round(one.gateway_us)
            found[f"calls.{one.name}.server_us"] = round(one.server_us)
        for put in self.puts:
            found[f"put.{put.processes}.per_s"] = round(put.per_s)
        if self.sqlite:
            found["put.sqlite.per_s"] = self.sqlite["per_s"]
        if self.ordering is not None:
            found["ordering.wall_us"] = round(self.ordering.wall_us, 1)
            found["ordering.cpu_us"] = round(self.ordering.client_us + self.ordering.server_us, 1)
        return found


def measured(folder: Path, seconds: int) -> Scale:
    """Measure all of it, one after the other, in windows of so many seconds."""
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir(parents=True)
    scale = Scale()
    with server(max(GATEWAYS)) as database:
        _records(folder, database, seconds, scale)
        with ExitStack() as stack:
            port, _ = stack.enter_context(echo_server(folder))
            _calls(folder, f"http://127.0.0.1:{port}/mcp", database, seconds, scale)
    return scale


def _records(folder: Path, database: Server, seconds: float, scale: Scale) -> None:
    scale.sqlite = group_commit(folder, seconds)
    for processes in GATEWAYS:
        address = database.fresh()
        prepared(address)
        scale.puts.append(put_by(address, processes, seconds, database.pid))
        if processes == GATEWAYS[1]:
            scale.ordering = ordering(address)


def _calls(folder: Path, upstream: str, database: Server, seconds: int, scale: Scale) -> None:
    with _alone(folder / "sqlite", upstream) as alone:
        scale.carried.append(_carried("sqlite", [alone], None, seconds, scale))
    gateways: list[Target] = []
    with _joining(folder, upstream, database) as joined:
        for number in GATEWAYS:
            while len(gateways) < number:
                gateways.append(joined())
            name = f"postgres-{number}"
            scale.carried.append(_carried(name, gateways, database.pid, seconds, scale))


def _carried(
    name: str, targets: Sequence[Target], postmaster: int | None, seconds: int, scale: Scale
) -> Carried:
    _windows(targets, _WARM_S)
    idle_s = _used(postmaster)
    time.sleep(_IDLE_S)
    idle_s = _used(postmaster) - idle_s
    found = []
    for _ in range(ROUNDS):
        before_s = _used(postmaster)
        windows = _windows(targets, seconds)
        found.append((windows, _used(postmaster) - before_s))
        scale.wrong += [f"{name}: {one.example}" for one in windows if one.wrong or one.errors]
    rates, sums = [], []
    for windows, server_s in found:
        calls = sum(one.calls for one in windows)
        rates.append(sum(one.calls / one.duration_s for one in windows))
        sums.append((sum(one.cpu_s for one in windows) / calls * 1e6, server_s / calls * 1e6))
    every = [one for windows, _ in found for one in windows]
    return Carried(
        name=name,
        gateways=len(targets),
        calls_per_s=statistics.median(rates),
        p50_ms=statistics.median(one.p50_us for one in every) / 1e3,
        p99_ms=statistics.median(one.p99_us for one in every) / 1e3,
        gateway_us=statistics.median(gateway for gateway, _ in sums),
        server_us=statistics.median(used for _, used in sums),
        idle_server_us=idle_s / _IDLE_S * 1e6,
    )


def _windows(targets: Sequence[Target], seconds: int) -> list[Window]:
    """Call all of them at once."""
    each = max(1, CONNECTIONS // len(targets))
    with ThreadPoolExecutor(len(targets)) as threads:
        return list(threads.map(lambda target: call(target, each, seconds), targets))


def _used(postmaster: int | None) -> float:
    return 0.0 if postmaster is None else tree_cpu_s(postmaster)


@contextmanager
def _alone(folder: Path, upstream: str) -> Iterator[Target]:
    with running_gateway(folder, {SERVER: server_at(upstream)}, limits=NO_LIMITS) as gateway:
        gateway.approve_all(SERVER)
        yield _target(gateway)


@contextmanager
def _joining(folder: Path, upstream: str, database: Server) -> Iterator[Callable[[], Target]]:
    """Give what starts one more gateway over the same database."""
    kek, port = folder / "kek", free_port()
    secret(kek, new_key())
    with ExitStack() as stack:
        first: list[Running] = []

        def joined() -> Target:
            number = len(first)
            at = folder / f"postgres-{number}"
            at.mkdir()
            secret(at / "url", database.address)
            running = stack.enter_context(
                running_gateway(
                    at,
                    {SERVER: server_at(upstream)},
                    ports=(free_port() if number else port, free_port()),
                    public_url=f"http://127.0.0.1:{port}",
                    storage={"kind": "postgres", "url": f"file:{at / 'url'}"},
                    auth={"key_encryption_key": f"file:{kek}"},
                    limits=NO_LIMITS,
                )
            )
            first.append(running)
            if number == 0:
                running.approve_all(SERVER)
            return _target(running, issuer=first[0])

        yield joined


def _target(gateway: Running, *, issuer: Running | None = None) -> Target:
    told = issuer or gateway
    return Target(
        name="gateway",
        url=gateway.url + endpoint_of(SERVER),
        pid=gateway.process.pid,
        tokens=lambda: (told.token(SERVER),),
        gateway=gateway,
    )


def scale_rows(scale: Scale) -> Iterator[Table]:
    """Yield tables of what was measured, and of what follows from it."""
    if scale.carried:
        yield (
            ("calls", "calls/s", "p50 ms", "p99 ms", "gateway us", "PostgreSQL us", "idle us/s"),
            [
                (
                    *(one.name, f"{one.calls_per_s:.0f}", f"{one.p50_ms:.1f}", f"{one.p99_ms:.1f}"),
                    *(f"{one.gateway_us:.0f}", f"{one.server_us:.0f}", f"{one.idle_server_us:.0f}"),
                )
                for one in scale.carried
            ],
        )
    if scale.puts:
        rows: list[Sequence[object]] = [
            (
                *(f"put, {one.processes} processes", f"{one.per_s:.0f}", f"{one.p50_ms:.1f}"),
                *(f"{one.p99_ms:.1f}", f"{one.client_us:.0f}", f"{one.server_us:.0f}"),
            )
            for one in scale.puts
        ]
        lite = scale.sqlite
        rows.append(
            ("SQLite's writer", f"{lite['per_s']:.0f}", lite["p50_ms"], lite["p99_ms"], "-", "-")
        )
        yield ("records", "a second", "p50 ms", "p99 ms", "process us", "PostgreSQL us"), rows
    if scale.ordering is not None:
        yield from _model(scale, scale.ordering)


def _model(scale: Scale, found: Ordering) -> Iterator[Table]:
    yield (
        ("ordering a record", "us"),
        [
            ("by the clock", f"{found.wall_us:.1f}"),
            ("CPU of the leader", f"{found.client_us:.1f}"),
            ("CPU of PostgreSQL", f"{found.server_us:.1f}"),
        ],
    )
    several = [one for one in scale.carried if one.gateways == max(GATEWAYS)]
    for one in several:
        each = 1e6 / one.gateway_us
        # Its thread and its session at the server take turns: one core, however many there are.
        most = 1e6 / (found.client_us + found.server_us) / RECORDS_A_CALL
        idle = one.idle_server_us / one.gateways
        yield (
            (
                "computed, a core each",
                "calls/s",
                "of the sequencer",
                "PostgreSQL's cores",
                "idle cores",
            ),
            [
                (
                    f"{number} gateways, full",
                    f"{min(number * each, most):.0f}",
                    f"{min(1.0, number * each / most):.0%}",
                    f"{min(number * each, most) * one.server_us / 1e6:.1f}",
                    f"{number * idle / 1e6:.2f}",
                )
                for number in MODELLED
            ],
        )
