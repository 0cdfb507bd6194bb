"""Recorded traces as an agent's calls at the endpoint in front of all servers, and as programs."""

import asyncio
import json
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Final, TypeAlias

from benchmarks.flow.gateways import AT_ONCE, SCOPES, Stage
from benchmarks.flow.host import Host
from benchmarks.flow.outcome import Outcome
from benchmarks.flow.traces import Step, Trace
from gateway.domain.programs import Language, SandboxLimits
from gateway.sandbox.declarations import typescript_name
from gateway.sandbox.names import shown
from tests.running import ALL, endpoint_of
from tests.told import each_call

_MOST_CALLS: Final = SandboxLimits().calls

Answered: TypeAlias = Mapping[str, Any]
"""What became of one call, by name."""


@dataclass(frozen=True, kw_only=True)
class Part:
    """What one client played of a trace, as it saw it."""

    client: str
    told: Sequence[str | None]
    """Codes of refusals; `None`: a result."""
    arrived: Sequence[bool]
    """Whether a call reached its server."""
    programs: int = 0

    def answered(self, records: Sequence[Answered]) -> list[Answered]:
        """Return what became of each call; nothing if something is not known of one."""
        if not len(records) == len(self.told) == len(self.arrived):
            return []
        return [
            {**record, "told": told, "arrived": arrived}
            for record, told, arrived in zip(records, self.told, self.arrived, strict=True)
        ]


async def twice(
    stage: Stage, traces: Sequence[Trace], language: Language = Language.PYTHON
) -> list[tuple[Part, Part]]:
    """Play each trace at the endpoint in front of all servers: directly, and as programs."""
    clients = await asyncio.to_thread(
        stage.registered,
        2 * len(traces),
        resources=[endpoint_of(ALL)],
        scopes=(*SCOPES, "code:run"),
    )
    turns = asyncio.Semaphore(AT_ONCE)

    async def one(trace: Trace, client: Mapping[str, Any], *, inside: bool) -> Part:
        async with turns:
            host = stage.host(client)
            id_ = str(client["client_id"])
            if inside:
                part = await _as_programs(stage, host, trace, id_, language)
            else:
                part = await _directly(stage, host, trace, id_)
            await host.end()
        return part

    async with asyncio.TaskGroup() as group:
        tasks = [
            group.create_task(one(trace, clients[2 * number + inside], inside=inside))
            for number, trace in enumerate(traces)
            for inside in (False, True)
        ]
    parts = [task.result() for task in tasks]
    return list(zip(parts[::2], parts[1::2], strict=True))


async def _directly(stage: Stage, host: Host, trace: Trace, client: str) -> Part:
    told, arrived = [], []
    for step in trace.steps:
        named = replace(step, server=ALL, tool=f"{step.server}__{step.tool}")
        answer, came = await stage.call(host, named, trace, [step])
        told.append(Outcome.of(step, answer, executed=all(came)).code)
        arrived += came
    return Part(client=client, told=told, arrived=arrived)


async def _as_programs(
    stage: Stage, host: Host, trace: Trace, client: str, language: Language
) -> Part:
    told: list[str | None] = []
    arrived: list[bool] = []
    programs = 0
    while len(told) < len(trace.steps):
        steps = trace.steps[len(told) : len(told) + _MOST_CALLS]
        written = WRITTEN[language](steps)
        asked = {"code": written, "language": language.value}
        run = replace(steps[0], server=ALL, tool="run_code", arguments=asked)
        answer, came = await stage.call(host, run, trace, steps)
        programs += 1
        made = [_told(call) for call in _calls(answer)]
        if not made:
            break
        told += made
        arrived += came[: len(made)]
    return Part(client=client, told=told, arrived=arrived, programs=programs)


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


def typescript_program(steps: Iterable[Step]) -> str:
    """Return the same in TypeScript."""
    lines = []
    for step in steps:
        called = f"tools.{typescript_name(step.server)}.{typescript_name(step.tool)}"
        lines.append(f"try {{ await {called}({json.dumps(step.arguments)}) }} catch {{ }}")
    return "\n".join(lines)


WRITTEN: Final[Mapping[Language, Callable[[Iterable[Step]], str]]] = {
    Language.PYTHON: program,
    Language.TYPESCRIPT: typescript_program,
}


def _calls(answer: Mapping[str, Any]) -> Sequence[Mapping[str, Any]]:
    """Return the calls of a program; none if it was not run."""
    try:
        calls = each_call(json.loads(answer["result"]["content"][0]["text"]))
    except (KeyError, IndexError, ValueError):
        return ()
    return calls


def _told(call: Mapping[str, Any]) -> str | None:
    """Return the code that the same call made directly would be refused with."""
    if call["state"] == "awaiting_approval":
        return "approval_required"
    # That a tool says that it failed is its result.
    return None if call["state"] in {"done", "failed"} else str(call["code"])
