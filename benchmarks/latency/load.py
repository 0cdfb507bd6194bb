"""One window of measuring: wrk calls one target over some connections for some seconds."""

import json
import os
import secrets
import subprocess
import tempfile
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from urllib.request import Request, urlopen

from benchmarks.latency.machine import busy_cpu_s, tree_cpu_s
from benchmarks.latency.targets import STATELESS, Target

_PATIENCE_S = 30
_SCRIPT = Path(__file__).with_name("call.lua")


class LoadFailed(Exception):
    """wrk did not run to its end; the text is what it printed."""


@dataclass(frozen=True, kw_only=True)
class Window:
    """What one window has shown."""

    calls: int
    duration_s: float
    p50_us: float
    p95_us: float
    p99_us: float
    wrong: int
    """Answers that are not the expected ones, refusals among them."""
    errors: int
    """Connections that failed, and answers that did not come."""
    cpu_s: float
    """Used by the target: all of its processes."""
    children_cpu_s: float = 0.0
    """That of those which the first one started: nginx's worker, the gateway's own OPA."""
    upstream_cpu_s: float = 0.0
    """Used by the server behind it."""
    foreign_cpu: float
    """The share of the machine's CPU time that went to nobody of ours."""
    example: str
    """A wrong answer, if there was one."""


def call(target: Target, connections: int, seconds: int) -> Window:
    """Call `target` in a closed loop: as many calls are under way as there are connections.

    Raises:
        LoadFailed: wrk failed.

    """
    tokens = target.tokens()
    session = ""
    if target.era != STATELESS:
        session = _session(target.url, tokens[0] if tokens else "", target.era)
    before, ours, busy, begun = (
        _used(target),
        tree_cpu_s(os.getpid()),
        busy_cpu_s(),
        time.monotonic(),
    )
    done = _wrk(target, tokens, session, connections, seconds)
    elapsed_s = time.monotonic() - begun
    foreign_s = (busy_cpu_s() - busy) - (tree_cpu_s(os.getpid()) - ours)
    whole, first, upstream = (now - then for now, then in zip(_used(target), before, strict=True))
    shown = json.loads(done.stdout.splitlines()[-1])
    return Window(
        calls=shown["calls"],
        duration_s=shown["duration_us"] / 1e6,
        p50_us=shown["p50_us"],
        p95_us=shown["p95_us"],
        p99_us=shown["p99_us"],
        wrong=shown["wrong"],
        errors=shown["errors"],
        cpu_s=whole,
        children_cpu_s=max(0.0, whole - first),
        upstream_cpu_s=upstream,
        foreign_cpu=max(0.0, foreign_s / elapsed_s / (os.cpu_count() or 1)),
        example=done.stderr.strip()[:500],
    )


def _used(target: Target) -> tuple[float, float, float]:
    """Return what the target has used, what its first process has, and what the server behind it."""
    whole = first = upstream = 0.0
    if target.pid is not None:
        whole, first = tree_cpu_s(target.pid), tree_cpu_s(target.pid, alone=True)
    if target.upstream is not None:
        upstream = tree_cpu_s(target.upstream)
    return whole, first, upstream


def _session(url: str, token: str, era: str) -> str:
    """Shake hands as a client of `era` does; no id from a server that keeps no sessions."""
    hello = {
        "protocolVersion": era,
        "capabilities": {},
        "clientInfo": {"name": "wrk", "version": "1"},
    }
    headers = {"Content-Type": "application/json", "Accept": "application/json, text/event-stream"}
    if token:
        headers["Authorization"] = f"Bearer {token}"
    with _post(url, headers, {"id": 0, "method": "initialize", "params": hello}) as answer:
        session = answer.headers.get("Mcp-Session-Id") or ""
    if session:
        headers |= {"Mcp-Session-Id": session, "MCP-Protocol-Version": era}
        _post(url, headers, {"method": "notifications/initialized"}).close()
    return session


def _post(url: str, headers: Mapping[str, str], message: Mapping[str, Any]) -> Any:
    body = json.dumps({"jsonrpc": "2.0", **message}).encode()
    return urlopen(Request(url, body, dict(headers)), timeout=_PATIENCE_S)


def _wrk(
    target: Target, tokens: Sequence[str], session: str, connections: int, seconds: int
) -> "subprocess.CompletedProcess[str]":
    options = ["-t1", f"-c{connections}", f"-d{seconds}s", "--timeout", "10s"]
    with tempfile.NamedTemporaryFile("w", suffix=".tokens") as file:
        file.write("\n".join(tokens))
        file.flush()
        done = subprocess.run(
            ["wrk", *options, "-s", str(_SCRIPT), target.url],
            env={
                **os.environ,
                "MARK": secrets.token_hex(8),
                "TOKENS": file.name,
                "TOOL": target.tool,
                "PROGRESS": str(int(target.streamed)),
                "ERA": target.era,
                "SESSION": session,
            },
            capture_output=True,
            text=True,
            check=False,
            timeout=seconds + 60,
        )
    if done.returncode != 0:
        raise LoadFailed(f"{done.stdout}\n{done.stderr}")
    return done
