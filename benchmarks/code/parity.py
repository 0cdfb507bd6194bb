"""The flow benchmark once more as programs: whether each call is answered as one made directly.

`parity(traces)` plays every trace twice at `/mcp` of one gateway process, as clients that are new to
it: call by call, and as a program that makes the same calls. Compared is what the audit log says of
them. A program that a person must answer first ends there, and another goes on behind that call.
"""

import asyncio
import json
import tempfile
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import count
from pathlib import Path
from typing import Any

from benchmarks.flow.gateways import AT_ONCE, SCOPES, Stage, staged
from benchmarks.flow.host import Host
from benchmarks.flow.report import OWN
from benchmarks.flow.traces import Step, Suite, Trace, read_suite, trace_files
from benchmarks.flow.upstream import STEPS
from gateway.cli.connection import connect
from gateway.config import load
from gateway.sandbox.names import shown
from tests.running import ALL, endpoint_of

COMPARED = (
    "server",
    "target",
    "effect",
    "verdict",
    "code",
    "label_before",
    "label_after",
    "obligations",
    "pin_digest",
    "arguments_hmac",
    "task",
)
"""What a record says of a call that no endpoint, session or moment has a part in."""

_SETTINGS = {"code": {"enabled": True}}
_TOLD = 20
"""Of the differences."""


@dataclass
class Parity:
    """How often both were answered alike."""

    calls: int = 0
    same: int = 0
    refused: int = 0
    """Of the calls that were made directly."""
    asked: int = 0
    """Of those, the ones that a person was to allow."""
    traces: int = 0
    programs: int = 0
    different: list[str] = field(default_factory=list)

    @property
    def figures(self) -> dict[str, float]:
        """The figures by their names."""
        return {
            "parity.traces": self.traces,
            "parity.programs": self.programs,
            "parity.calls": self.calls,
            "parity.refused": self.refused,
            "parity.asked": self.asked,
            "parity.same": self.same,
            "parity.same_percent": round(100 * self.same / self.calls, 3) if self.calls else 0.0,
        }

    @property
    def failures(self) -> list[str]:
        """The first of the differences, without anybody's data."""
        rest = len(self.different) - _TOLD
        more = [f"parity: {rest} more differences"] if rest > 0 else []
        return [*(f"parity: {one}" for one in self.different[:_TOLD]), *more]

    def add(
        self, trace: Trace, direct: Sequence[Mapping[str, Any]], scripted: Sequence[Mapping[str, Any]]
    ) -> None:
        """Count one trace: what is on record of its calls, made in the one way and in the other."""
        self.traces += 1
        self.calls += len(trace.steps)
        self.refused += sum(one["verdict"] != "allow" for one in direct)
        self.asked += sum(one["verdict"] == "ask" for one in direct)
        counts = (len(trace.steps), len(direct), len(scripted))
        if len(set(counts)) != 1:
            self.different.append(f"{trace.id}: of {counts[0]} calls {counts[1:]} are on record")
            return
        for number, (one, other) in enumerate(zip(direct, scripted, strict=True)):
            differing = [name for name in one if one[name] != other[name]]
            self.same += not differing
            if differing:
                told = {name: (one[name], other[name]) for name in ("verdict", "code", "why")}
                self.different.append(f"{trace.id}, call {number}: {', '.join(differing)}; {told}")


class Twice:
    """Plays traces at the endpoint in front of all servers, directly and as programs."""

    def __init__(self, stage: Stage) -> None:
        self._stage = stage
        self._ids = count()
        self.programs = 0
        self.failed: list[str] = []
        """Programs that did not end as they should."""

    async def play(self, traces: Sequence[Trace]) -> list[tuple[str, str]]:
        """Play each; return for each of them the clients that did, directly and by programs."""
        clients = await asyncio.to_thread(
            self._stage.registered,
            2 * len(traces),
            resources=[endpoint_of(ALL)],
            scopes=(*SCOPES, "code:run"),
        )
        turns = asyncio.Semaphore(AT_ONCE)

        async def one(trace: Trace, client: Mapping[str, Any], *, scripted: bool) -> None:
            async with turns:
                host = Host(
                    self._stage.http,
                    self._stage.gateway.url,
                    client,
                    sessions=self._stage.sessions,
                )
                await (self._as_programs(host, trace) if scripted else self._directly(host, trace))
                await host.end()

        async with asyncio.TaskGroup() as group:
            for number, trace in enumerate(traces):
                for scripted in (False, True):
                    client = clients[2 * number + scripted]
                    group.create_task(one(trace, client, scripted=scripted))
        ids = [str(client["client_id"]) for client in clients]
        return list(zip(ids[::2], ids[1::2], strict=True))

    async def _directly(self, host: Host, trace: Trace) -> None:
        for step in trace.steps:
            named = replace(step, server=ALL, tool=f"{step.server}__{step.tool}")
            await self._call(host, trace, named, [step])

    async def _as_programs(self, host: Host, trace: Trace) -> None:
        rest = list(trace.steps)
        while rest:
            self.programs += 1
            run = replace(rest[0], server=ALL, tool="run_code", arguments={"code": program(rest)})
            answer = await self._call(host, trace, run, rest)
            report = _report(answer)
            made, status = len(report.get("calls", ())), report.get("status")
            if (status, made) != ("ok", len(rest)) and (status != "awaiting_approval" or not made):
                self.failed.append(f"{trace.id}: a program ended {status} after {made} calls: {answer}")
                return
            rest = rest[made:]

    async def _call(
        self, host: Host, trace: Trace, step: Step, expected: Sequence[Step]
    ) -> Mapping[str, Any]:
        id_ = f"twice-{next(self._ids)}"
        task = {"douane/task": {"prompt": trace.prompt}} if self._stage.declared else {}
        self._stage.servers.expect(id_, *expected)
        try:
            return await host.call(step, id_, {**task, STEPS: id_})
        finally:
            self._stage.servers.arrived(id_)


def program(steps: Iterable[Step]) -> str:
    """Return a program that makes these calls one after the other, whatever becomes of each."""
    lines = ["import json", "import tools"]
    for step in steps:
        arguments = f"**json.loads({json.dumps(step.arguments)!r})"
        lines += [
            "try:",
            f"    await tools.{shown(step.server, step.tool)}({arguments})",
            "except RuntimeError:",
            "    pass",
        ]
    return "\n".join(lines)


def _report(answer: Mapping[str, Any]) -> Mapping[str, Any]:
    try:
        found: Mapping[str, Any] = json.loads(answer["result"]["content"][0]["text"])
    except (KeyError, IndexError, ValueError):
        return {}
    return found


def on_record(stage: Stage) -> Mapping[str, Sequence[Mapping[str, Any]]]:
    """Return what became of the calls of servers' tools: by client, in the order of their records."""
    found: dict[str, list[Mapping[str, Any]]] = defaultdict(list)
    with connect(load(stage.gateway.config)) as gateway:
        for record in gateway.stream("audit.export"):
            ended = record["kind"] in {"outcome", "approval"}
            if ended and record.get("method") == "tools/call" and record.get("server"):
                why = sorted(reason["code"] for reason in record.get("reasons") or ())
                kept = {name: record.get(name) for name in COMPARED}
                found[record["client"]].append({**kept, "why": why})
    return found


async def compared(suite: Suite, traces: Sequence[Trace], *, declared: bool = False) -> Parity:
    """Play these traces of a suite both ways in a gateway of their own."""
    found = Parity()
    settings = {**suite.settings, **_SETTINGS}
    with tempfile.TemporaryDirectory(prefix="parity-", ignore_cleanup_errors=True) as folder:
        async with staged(Path(folder), suite, settings=settings, declared=declared) as stage:
            twice = Twice(stage)
            clients = await twice.play(traces)
            records = await asyncio.to_thread(on_record, stage)
    for trace, (direct, scripted) in zip(traces, clients, strict=True):
        found.add(trace, records.get(direct, ()), records.get(scripted, ()))
    found.programs = twice.programs
    found.different = [*twice.failed, *found.different]
    return found


if __name__ == "__main__":
    import sys, time
    for name, path in trace_files(OWN).items():
        suite = read_suite(name, path)
        n = int(sys.argv[1]); 
        if len(sys.argv) > 3 and name not in sys.argv[3].split(","): continue
        t = time.time()
        traces = suite.traces[:: max(1, len(suite.traces)//n)][:n]
        p = asyncio.run(compared(suite, traces, declared=sys.argv[2] == "1"))
        print(name, p.figures, round(time.time()-t, 1), flush=True)
        for d in p.failures[:8]: print(d[:1500])
