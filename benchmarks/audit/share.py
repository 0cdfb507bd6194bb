"""What part of a call is the wait for its two durable records."""

import re
import urllib.request
from collections.abc import Sequence
from pathlib import Path

from benchmarks.latency.load import call
from benchmarks.latency.targets import NO_LIMITS, SERVER, Target, echo_server, server_at
from tests.running import running_gateway

_SUM = re.compile(r'^douane_audit_wait_seconds_(sum|count)\{place="log"\} (\S+)$', re.MULTILINE)


def shares(
    folder: Path, seconds: int = 4, connections: Sequence[int] = (1, 16)
) -> dict[int, dict[str, float]]:
    """Return, by connections, the mean call, the mean waits of one call, and their share.

    An intent and an outcome are waited for one after the other, by the gateway's own clock; the
    call is timed by whoever makes it.
    """
    folder.mkdir(parents=True, exist_ok=True)
    with (
        echo_server(folder) as (port, upstream),
        running_gateway(
            folder,
            {SERVER: server_at(f"http://127.0.0.1:{port}/mcp")},
            audit={"durability": "power"},
            limits=NO_LIMITS,
        ) as gateway,
    ):
        gateway.approve_all(SERVER)
        target = Target(
            name="power",
            url=f"{gateway.url}/mcp/{SERVER}",
            pid=gateway.process.pid,
            tokens=lambda: (gateway.token(SERVER),),
            gateway=gateway,
            upstream=upstream,
        )
        call(target, max(connections), 1)
        return {count: _share(target, count, seconds) for count in connections}


def _share(target: Target, connections: int, seconds: int) -> dict[str, float]:
    before_s, before = _waits(target)
    window = call(target, connections, seconds)
    waited_s, records = _waits(target)
    mean_s = window.duration_s * connections / window.calls
    waits_s = (waited_s - before_s) / window.calls
    return {
        "call_us": mean_s * 1e6,
        "waits_us": waits_s * 1e6,
        "share": waits_s / mean_s,
        "records_per_call": (records - before) / window.calls,
    }


def _waits(target: Target) -> tuple[float, float]:
    if target.gateway is None:
        raise ValueError("only a gateway waits for records")
    with urllib.request.urlopen(f"{target.gateway.admin_url}/metrics") as answer:
        found = dict(_SUM.findall(answer.read().decode()))
    return float(found["sum"]), float(found["count"])
