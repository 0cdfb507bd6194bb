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
from typing import Any, Final, Protocol

import uvloop

from benchmarks.flow.gateways import staged
from benchmarks.flow.outcome import Outcome
from benchmarks.flow.report import OWN
from benchmarks.flow.traces import Suite, Trace, read_suite, trace_files
from benchmarks.planes.parts import Kept

ENCODED: Final = ".b64"
NAMES: Final = tuple(trace_files(OWN))
_MOST_TOLD: Final = 10
_AT_A_TIME: Final = 48
"""Traces that are played one way, and then the other, before it is told how far it is."""
_PLACES: Final = 2
"""Suites at one time."""
_TRIES: Final = 3
"""Of a trace in which a call got no decision, as on a busy machine."""
_MOST_AGAIN: Final = 0.05
"""Of the traces of a suite. What needs to be tried more often than that is no matter of the machine."""

Both = tuple[Sequence[Outcome], Sequence[Outcome]]
"""What became of the calls of a trace by the gateway, and by the plane."""


class Plays(Protocol):
    """Who carries conversations, as `Stage` does."""

    async def play(self, conversations: Sequence[Sequence[Trace]]) -> list[list[list[Outcome]]]:
        """Play each as a client that is new."""
        ...


@dataclass(kw_only=True)
class Compared:
    """What became of the calls of a suite, each carried both ways."""

    suite: str
    played: int = 0
    """Traces."""
    again: int = 0
    """Those that were played again: a call got no decision one way, and one the other."""
    calls: int = 0
    refused: int = 0
    """By the gateway."""
    harm: int = 0
    """Calls of attacks that a server was reached by, through the plane."""
    harm_of_gateway: int = 0
    unlike: Counter[str] = field(default_factory=Counter)
    """What ended otherwise, and how often."""
    first: dict[str, str] = field(default_factory=dict)
    """In which trace it did at first."""

    @classmethod
    def of(cls, content: Mapping[str, Any]) -> "Compared":
        """Return what `content` was kept of."""
        return cls(**{**content, "unlike": Counter(content["unlike"])})

    @property
    def content(self) -> Mapping[str, Any]:
        """What can be kept of it, to go on with."""
        return {**vars(self), "unlike": dict(self.unlike)}

    @property
    def figures(self) -> Mapping[str, float]:
        counts = {"calls": self.calls, "refused": self.refused, "harm": self.harm}
        unlike = {"unlike": self.unlike.total(), "harm_of_gateway": self.harm_of_gateway}
        counts["again"] = self.again
        return {f"flow.{self.suite}.{name}": n for name, n in (counts | unlike).items()}

    @property
    def failures(self) -> Iterator[str]:
        for call, times in self.unlike.most_common(_MOST_TOLD):
            yield f"{self.suite}: {times} times {call} (at first in {self.first[call]})"
        if self.again > _MOST_AGAIN * self.played:
            yield f"{self.suite}: {self.again} of {self.played} traces had to be played again"

    def add(self, trace: str, ours: Sequence[Outcome], planes: Sequence[Outcome]) -> None:
        """Count one trace."""
        self.played += 1
        for one, other in zip(ours, planes, strict=True):
            self.calls += 1
            self.refused += one.code is not None
            self.harm += other.executed and other.step.harmful
            self.harm_of_gateway += one.executed and one.step.harmful
            if _ended(one) != _ended(other):
                told = f"{one.name}: {_ended(one)} and by the plane {_ended(other)}"
                self.unlike[told] += 1
                self.first.setdefault(told, trace)


def _ended(outcome: Outcome) -> str:
    return f"{outcome.code or 'passed'} ({outcome.why}), {'sent' if outcome.executed else 'kept'}"


async def both_ways(
    gateway: Plays, plane: Plays, traces: Sequence[Trace]
) -> tuple[Mapping[str, Both], int]:
    """Return what became of each of `traces` both ways, and how many were played again for that.

    Where a call got no decision, and the other way it did, there is nothing to compare: such a trace is
    played again, both ways. What was decided is never asked about once more.
    """
    found: dict[str, Both] = {}
    left = list(traces)
    again: set[str] = set()
    for _ in range(_TRIES):
        part = [[trace] for trace in left]
        ours, planes = await gateway.play(part), await plane.play(part)
        for trace, (one,), (other,) in zip(left, ours, planes, strict=True):
            found[trace.id] = one, other
        left = [trace for trace in left if _is_undecided(*found[trace.id])]
        if not left:
            break
        again |= {trace.id for trace in left}
    return found, len(again)


def _is_undecided(ours: Sequence[Outcome], planes: Sequence[Outcome]) -> bool:
    """Whether the first call that ended otherwise got no decision one way: the rest may follow from that."""
    for one, other in zip(ours, planes, strict=True):
        if _ended(one) != _ended(other):
            return one.is_decided != other.is_decided
    return False


async def compared(
    suite: Suite,
    *,
    declared: bool,
    folder: Path,
    found: Compared | None = None,
    kept: Kept | None = None,
) -> Compared:
    """Play every trace of `suite` both ways, each as a client that is new to the gateway.

    It goes on from what was `found` of it before, and has what it finds `kept` as it goes. One suite in its plain spelling speaks with sessions and in its encoded one without, so that both
    ways of both are compared.
    """
    found, began = found or Compared(suite=suite.name), time.monotonic()
    async with staged(folder, suite, declared=declared, plane=True) as with_sessions:
        stateless = suite.name.endswith(ENCODED)
        stage = with_sessions.without_sessions() if stateless else with_sessions
        by_plane = stage.by_plane()
        for start in range(found.played, len(suite.traces), _AT_A_TIME):
            part = suite.traces[start : start + _AT_A_TIME]
            ended, again = await both_ways(stage, by_plane, part)
            found.again += again
            for trace in part:
                found.add(trace.id, *ended[trace.id])
            if kept is not None:
                kept.begin(suite.name, found.content)
            _tell(found, len(suite.traces), time.monotonic() - began)
    return found


def _tell(found: Compared, of: int, seconds: float) -> None:
    print(
        f"{found.suite}: {found.played} of {of} traces, {found.calls} calls, "
        f"{found.unlike.total()} unlike, {found.again} played again, {seconds:.0f} s",
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


def measured(
    names: Sequence[str], kept: Kept, *, most: int | None, declared: bool
) -> Iterator[Compared]:
    """Compare these suites, two at a time: each has one gateway, and one who plays; yield each once it is done."""
    if not names:
        return
    with ProcessPoolExecutor(_PLACES, mp_context=get_context("spawn")) as processes:
        # The long ones first, so that nobody waits for one alone.
        under_way = [processes.submit(_one, name, kept, most, declared) for name in reversed(names)]
        for done in as_completed(under_way):
            yield done.result()


def _one(name: str, kept: Kept, most: int | None, declared: bool) -> Compared:
    begun = kept.begun(name)
    found = None if begun is None else Compared.of(begun)
    with (
        tempfile.TemporaryDirectory(prefix="planes-", ignore_cleanup_errors=True) as made,
        asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner,
    ):
        playing = compared(
            suite_of(name, most), declared=declared, folder=Path(made), found=found, kept=kept
        )
        return runner.run(playing)
