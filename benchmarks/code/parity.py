"""The flow benchmark once more as programs: whether each call is answered as one made directly.

Every trace is played twice at `/mcp` of one gateway process, by clients that are new to it: call by
call, and as a program that makes the same calls. Compared is what the audit log says of each call,
what its caller was told, and whether it reached its server. A program that waits for a person has
made its last call; another one makes those that come after.
"""

import asyncio
import shutil
import tempfile
from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from benchmarks.code.twice import Answered, twice
from benchmarks.flow.gateways import Stage, staged
from benchmarks.flow.report import OWN
from benchmarks.flow.traces import Suite, Trace, read_suite, trace_files
from benchmarks.report import ROOT
from gateway.cli.connection import connect
from gateway.config import load
from gateway.domain.programs import Language

RECORDED = (
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
"""Members of a record that do not depend on who called, and when. Others do in parts."""

STRICT = """package douane

deny contains reason if some reason in ask
"""
"""Denies what the shipped policy asks a person about, so that programs go on and are told of it."""

_SETTINGS = {"code": {"enabled": True}}
_MOST_TOLD = 20


@dataclass
class Parity:
    """How often both ways had the same answer."""

    traces: int = 0
    programs: int = 0
    calls: int = 0
    asked: int = 0
    """Of the calls made directly."""
    denied: int = 0
    """Of the calls made directly."""
    same: int = 0
    different: list[str] = field(default_factory=list)

    @property
    def figures(self) -> dict[str, float]:
        """The figures by their names."""
        return {
            "parity.traces": self.traces,
            "parity.programs": self.programs,
            "parity.calls": self.calls,
            "parity.asked": self.asked,
            "parity.denied": self.denied,
            "parity.same": self.same,
            "parity.same_percent": round(100 * self.same / self.calls, 3) if self.calls else 0.0,
        }

    @property
    def failures(self) -> list[str]:
        """The first of the differences, without what anybody sent or got."""
        rest = len(self.different) - _MOST_TOLD
        more = [f"{rest} more like these"] if rest > 0 else []
        return [f"parity: {one}" for one in (*self.different[:_MOST_TOLD], *more)]

    def add(self, trace: Trace, direct: Sequence[Answered], inside: Sequence[Answered]) -> None:
        """Count a trace: what became of its calls, made directly and inside programs."""
        self.traces += 1
        self.calls += len(trace.steps)
        self.asked += sum(one["verdict"] == "ask" for one in direct)
        self.denied += sum(one["verdict"] == "deny" for one in direct)
        if not len(trace.steps) == len(direct) == len(inside):
            found = f"{len(direct)} are known directly and {len(inside)} inside programs"
            self.different.append(f"{trace.id}: of {len(trace.steps)} calls {found}")
            return
        for number, (one, other) in enumerate(zip(direct, inside, strict=True)):
            differing = [name for name in one if one[name] != other[name]]
            self.same += not differing
            if differing:
                verdicts = f"{one['verdict']} directly, {other['verdict']} inside"
                self.different.append(
                    f"{trace.id}, step {number}: {verdicts}; differing: {', '.join(differing)}"
                )


def on_record(stage: Stage) -> Mapping[tuple[str, bool], Sequence[Answered]]:
    """Return what is on record of calls of servers' tools, by client and whether inside a program."""
    found: dict[tuple[str, bool], list[Answered]] = defaultdict(list)
    with connect(load(stage.gateway.config)) as gateway:
        for record in gateway.stream("audit.export"):
            ended = (record["kind"], record.get("method")) == ("outcome", "tools/call")
            if ended and record.get("server"):
                inside = record["origin"] == "sandbox"
                found[record["client"], inside].append(comparable(record))
    return found


def comparable(record: Mapping[str, Any]) -> Answered:
    """Return what of a record is the same for the same call of whoever has done the same before."""
    reasons = sorted(reason["code"] for reason in record.get("reasons") or ())
    destinations = [
        (found["path"], found["proof"], found["integrity"])
        for found in record.get("destinations") or ()
    ]
    members = {name: record.get(name) for name in RECORDED}
    return {**members, "reasons": reasons, "destinations": destinations}


async def compare(
    found: Parity,
    suite: Suite,
    most: int | None,
    *,
    language: Language = Language.PYTHON,
    **options: Any,
) -> None:
    """Play traces of a suite both ways in a gateway of their own, and count them in `found`.

    `options` are those of `staged`; with `most` no more traces than that, taken from all over.
    """
    step = 1 if most is None else max(1, len(suite.traces) // most)
    traces = suite.traces[::step][:most]
    settings = {**suite.settings, **_SETTINGS}
    with tempfile.TemporaryDirectory(prefix="parity-", ignore_cleanup_errors=True) as folder:
        async with staged(Path(folder), suite, settings=settings, **options) as stage:
            played = await twice(stage, traces, language)
            records = await asyncio.to_thread(on_record, stage)
    for trace, (direct, inside) in zip(traces, played, strict=True):
        found.programs += inside.programs
        found.add(
            trace,
            direct.answered(records.get((direct.client, False), ())),
            inside.answered(records.get((inside.client, True), ())),
        )


@contextmanager
def strict_policies() -> Iterator[Path]:
    """Give the shipped policies with `STRICT` among them, until the context ends."""
    with tempfile.TemporaryDirectory(prefix="strict-") as folder:
        policies = Path(folder) / "policies"
        # Its tests are of what it asks about.
        ignored = shutil.ignore_patterns("*_test.rego")
        shutil.copytree(ROOT / "policies", policies, ignore=ignored)
        (policies / "strict.rego").write_text(STRICT)
        yield policies


async def parity(*, most: int | None = None) -> Parity:
    """Play every suite under the shipped policy, and the plain ones under one that denies.

    In the first case nothing is declared, in the second a trusted host declares the user's prompt.
    """
    found = Parity()
    suites = [read_suite(name, path) for name, path in trace_files(OWN).items()]
    for suite in suites:
        await compare(found, suite, most)
    with strict_policies() as policies:
        for suite in suites:
            if not suite.is_encoded:
                await compare(found, suite, most, declared=True, policies=policies)
    return found
