"""Recorded tasks and attacks, carried by the gateway and by a plane that only asks it and reports."""

import asyncio
import tempfile
import time
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import ProcessPoolExecutor, as_completed
from dataclasses import dataclass, field
from hashlib import sha256
from multiprocessing import get_context
from pathlib import Path
from typing import Final

import uvloop

from benchmarks.flow.gateways import staged
from benchmarks.flow.outcome import Outcome
from benchmarks.flow.report import OWN
from benchmarks.flow.traces import Suite, read_suite, trace_files

ENCODED: Final = ".b64"
NAMES: Final = tuple(trace_files(OWN))
_MOST_TOLD: Final = 10
_AT_A_TIME: Final = 48
"""Traces that are played one way, and then the other, before it is told how far it is."""
_PLACES: Final = 2
"""Suites at one time."""


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
    """Play every trace of `suite` both ways, each as a client that is new to the gateway.

    One suite in its plain spelling speaks with sessions and in its encoded one without, so that both
    ways of both are compared.
    """
    found, began = Compared(suite=suite.name), time.monotonic()
    async with staged(folder, suite, declared=declared, plane=True) as with_sessions:
        stateless = suite.name.endswith(ENCODED)
        stage = with_sessions.without_sessions() if stateless else with_sessions
        by_plane = stage.by_plane()
        for start in range(0, len(suite.traces), _AT_A_TIME):
            part = [[trace] for trace in suite.traces[start : start + _AT_A_TIME]]
            ours, planes = await stage.play(part), await by_plane.play(part)
            for (one,), (other,) in zip(ours, planes, strict=True):
                found.add(one, other)
            _tell(found, start + len(part), len(suite.traces), time.monotonic() - began)
    return found


def _tell(found: Compared, played: int, of: int, seconds: float) -> None:
    print(
        f"{found.suite}: {played} of {of} traces, {found.calls} calls, "
        f"{found.unlike.total()} unlike, {seconds:.0f} s",
        flush=True,
    )


def suite_of(name: str, most: int | None) -> Suite:
    """Return a recorded suite, with no more than `most` of its traces, if given."""
    suite = read_suite(name, trace_files(OWN)[name])
    # By digests: the first ones would be of few goals.
    some = sorted(suite.traces, key=lambda trace: sha256(trace.id.encode()).digest())[:most]
    return Suite(
        name=name, settings=suite.settings, config=suite.config, tools=suite.tools, traces=some
    )


def measured(names: Sequence[str], *, most: int | None, declared: bool) -> Iterator[Compared]:
    """Compare these suites, two at a time: each has one gateway, and one who plays; yield each once it is done."""
    if not names:
        return
    with ProcessPoolExecutor(_PLACES, mp_context=get_context("spawn")) as processes:
        # The long ones first, so that nobody waits for one alone.
        under_way = [processes.submit(_one, name, most, declared) for name in reversed(names)]
        for done in as_completed(under_way):
            yield done.result()


def _one(name: str, most: int | None, declared: bool) -> Compared:
    with (
        tempfile.TemporaryDirectory(prefix="planes-", ignore_cleanup_errors=True) as made,
        asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner,
    ):
        return runner.run(compared(suite_of(name, most), declared=declared, folder=Path(made)))
