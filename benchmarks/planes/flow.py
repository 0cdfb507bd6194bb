"""Recorded tasks and attacks, carried by the gateway and by a plane that only asks it and reports."""

import asyncio
import tempfile
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from hashlib import sha256
from pathlib import Path

import uvloop

from benchmarks.flow.gateways import staged
from benchmarks.flow.outcome import Outcome
from benchmarks.flow.report import OWN
from benchmarks.flow.traces import Suite, read_suite, trace_files

_MOST_TOLD = 10


@dataclass(kw_only=True)
class Compared:
    """What became of the calls of a suite, each carried both ways."""

    suite: str
    calls: int = 0
    refused: int = 0
    """By the gateway."""
    harm: int = 0
    """Calls of attacks that a server was reached by, through the plane."""
    harm_of_gateway: int = 0
    unlike: Counter[str] = field(default_factory=Counter)
    """What ended otherwise, and how often."""

    @property
    def figures(self) -> Mapping[str, float]:
        counts = {"calls": self.calls, "refused": self.refused, "harm": self.harm}
        unlike = {"unlike": self.unlike.total(), "harm_of_gateway": self.harm_of_gateway}
        return {f"flow.{self.suite}.{name}": n for name, n in (counts | unlike).items()}

    @property
    def failures(self) -> Iterator[str]:
        for call, times in self.unlike.most_common(_MOST_TOLD):
            yield f"{self.suite}: {times} times {call}"

    def add(self, ours: Sequence[Outcome], planes: Sequence[Outcome]) -> None:
        """Count one trace."""
        for one, other in zip(ours, planes, strict=True):
            self.calls += 1
            self.refused += one.code is not None
            self.harm += other.executed and other.step.harmful
            self.harm_of_gateway += one.executed and one.step.harmful
            if _ended(one) != _ended(other):
                self.unlike[f"{one.name}: {_ended(one)} and by the plane {_ended(other)}"] += 1


def _ended(outcome: Outcome) -> str:
    return f"{outcome.code or 'passed'} ({outcome.why}), {'sent' if outcome.executed else 'kept'}"


async def compared(suite: Suite, *, declared: bool, folder: Path) -> Compared:
    """Play every trace of `suite` both ways, each as a client that is new to the gateway."""
    found = Compared(suite=suite.name)
    alone = [[trace] for trace in suite.traces]
    async with staged(folder, suite, declared=declared, plane=True) as stage:
        ours = await stage.play(alone)
        planes = await stage.by_plane().play(alone)
    for (one,), (other,) in zip(ours, planes, strict=True):
        found.add(one, other)
    return found


def suites(most: int | None) -> Iterator[Suite]:
    """Yield the recorded suites, plain and encoded; no more than `most` traces of each, if given."""
    for name, path in trace_files(OWN).items():
        suite = read_suite(name, path)
        # By digests: the first ones would be of few goals.
        some = sorted(suite.traces, key=lambda trace: sha256(trace.id.encode()).digest())[:most]
        yield Suite(
            name=name,
            settings=suite.settings,
            config=suite.config,
            tools=suite.tools,
            traces=some,
        )


def measured(*, most: int | None, declared: bool) -> list[Compared]:
    """Compare all suites, one after the other."""

    async def every() -> list[Compared]:
        found = []
        for suite in suites(most):
            with tempfile.TemporaryDirectory(prefix="planes-", ignore_cleanup_errors=True) as made:
                found.append(await compared(suite, declared=declared, folder=Path(made)))
        return found

    with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
        return runner.run(every())
