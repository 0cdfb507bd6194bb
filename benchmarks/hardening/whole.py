"""The longest turn of a whole gateway's event loop while it carries hostile requests and answers.

The gateway is a process of its own whose loop is watched (`watched.py`), before a server that answers
as a step has it. A turn is one callback of the loop: as long as it lasts, everybody else waits.
"""

import asyncio
import json
import re
import shutil
import sys
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

import aiohttp
from aiohttp import web

from benchmarks.hardening.inputs import LABELS, RULE, STEPS, TOOLS, Ask, Step, answered
from benchmarks.hardening.parts import Part
from tests.e2e.posting import body_of, mirrored, modern_params
from tests.e2e.scripted import FRESH, Raw, behaves, raw_in_a_thread
from tests.running import Running, running_gateway
from tests.servers.process import ROOT

PROMISED_MS: Final = 60.0
_SETTLED_S: Final = 0.3


@dataclass(kw_only=True)
class Longest:
    """The longest turn of a step."""

    cpu_ms: float = 0.0
    wall_ms: float = 0.0
    late_ms: float = 0.0
    """How late the loop came to what was due, by the clock."""
    where: str = ""
    turns: int = 0
    """How many were longer than anybody should notice."""
    statuses: dict[int, int] = field(default_factory=dict)
    said: str = ""
    """How the last answer begins."""


def figures(folder: Path) -> Part:
    """Play every step before one gateway, and say how long its loop's longest turns were."""
    found = played(folder, STEPS)
    longest = max(found.values(), key=lambda one: one.cpu_ms)
    return Part(
        title="The longest turn of a whole gateway",
        rows=[
            (name, f"{one.cpu_ms:.1f} ms ({one.wall_ms:.0f} by the clock) {one.where}")
            for name, one in found.items()
        ],
        figures={
            **{f"whole.{_word(name)}_ms": round(one.cpu_ms, 1) for name, one in found.items()},
            "whole.longest_ms": round(longest.cpu_ms, 1),
        },
        failures=[
            f"a turn of the loop took {one.cpu_ms:.1f} ms in {name}, not at most {PROMISED_MS:.0f}"
            for name, one in found.items()
            if one.cpu_ms > PROMISED_MS
        ],
        limits=[
            "Processor time of the loop's thread: by the clock a turn is as long as the machine is busy.",
            "Collecting garbage after the process has grown is in the figures, whoever's turn it is.",
            "The loop is asyncio's own here, which can be watched; the gateway's is uvloop's.",
        ],
        summary=f"longest turn of the whole {longest.cpu_ms:.1f} ms",
    )


def played(folder: Path, steps: Mapping[str, Step]) -> dict[str, Longest]:
    """Return the longest turn of each step."""
    policies = folder / "policies"
    shutil.copytree(ROOT / "policies", policies, ignore=shutil.ignore_patterns("tests", "cases"))
    (policies / "weary.rego").write_text(RULE)
    file = folder / "turns.jsonl"
    program = [sys.executable, "-m", "benchmarks.hardening.watched", str(file)]
    settings: Any = {
        "policies": policies,
        "limits": {"calls_per_minute": 1_000_000, "upstream_failures": 1000},
    }
    with raw_in_a_thread() as raw:
        raw.play(_plays(Step(asks=list)))
        server = {**LABELS, "url": raw.url}
        with running_gateway(
            folder / "gateway", {"raw": server}, program=program, **settings
        ) as it:
            it.approve_all("raw")
            tokens = {"/mcp/raw": it.token("raw"), "/mcp": it.token("all")}
            return asyncio.run(_played(it, raw, tokens, steps, file))


async def _played(
    running: Running, raw: Raw, tokens: Mapping[str, str], steps: Mapping[str, Step], file: Path
) -> dict[str, Longest]:
    found = {}
    timeout = aiohttp.ClientTimeout(total=300)
    async with aiohttp.ClientSession(timeout=timeout) as http:
        for name, step in steps.items():
            raw.play(_plays(step))
            read = _size(file)
            longest = found[name] = Longest()
            gate = asyncio.Semaphore(step.at_once)
            await asyncio.gather(
                *(
                    _ask(http, one, longest, url=running.url, token=tokens[one.endpoint], gate=gate)
                    for one in step.asks()
                )
            )
            await asyncio.sleep(_SETTLED_S)
            _read(longest, file, read)
    return found


def _size(file: Path) -> int:
    return file.stat().st_size


def _read(longest: Longest, file: Path, begin: int) -> None:
    for line in file.read_bytes()[begin:].splitlines():
        turn = json.loads(line)
        if "late_ms" in turn:
            longest.late_ms = max(longest.late_ms, turn["late_ms"])
            continue
        longest.turns += 1
        longest.wall_ms = max(longest.wall_ms, turn["wall_ms"])
        if turn["cpu_ms"] > longest.cpu_ms:
            longest.cpu_ms, longest.where = turn["cpu_ms"], turn["where"]


async def _ask(
    http: aiohttp.ClientSession,
    ask: Ask,
    longest: Longest,
    *,
    url: str,
    token: str,
    gate: asyncio.Semaphore,
) -> None:
    headers = {
        "Content-Type": "application/json",
        "Accept": "application/json, text/event-stream",
    }
    if ask.token:
        headers["Authorization"] = f"Bearer {token}"
    params = dict(ask.params)
    if ask.legacy:
        body = body_of(ask.method, params)
    else:
        body = body_of(ask.method, modern_params(params))
        headers |= dict(mirrored(ask.method, params))
    async with gate:
        try:
            async with http.post(
                url + ask.endpoint, data=ask.body or body, headers=headers
            ) as response:
                said = await response.read()
                status = response.status
                longest.said = said[:400].decode(errors="replace")
        except (aiohttp.ClientError, OSError):
            status = 0
    longest.statuses[status] = longest.statuses.get(status, 0) + 1


def _plays(step: Step) -> Callable[[web.Request], Awaitable[web.StreamResponse]]:
    async def plays(request: web.Request) -> web.StreamResponse:
        message = json.loads(await request.read() or b"{}")
        method = message.get("method")
        if method == "tools/list" and step.says is None:
            listed = {"tools": TOOLS, **FRESH}
            return web.Response(body=answered(message, listed), content_type="application/json")
        ours = str(message.get("id", "douane-")).startswith("douane-")
        asked = {"tools/call", "tools/list", "resources/list"}
        if ours or method not in asked or (step.says is None and step.streams is None):
            return await behaves(request)
        if step.streams is not None:
            return web.Response(body=step.streams(message), content_type="text/event-stream")
        assert step.says is not None
        result = step.says(message)
        return web.Response(body=answered(message, result), content_type="application/json")

    return plays


def _word(name: str) -> str:
    return re.sub(r"\W+", "_", name)
