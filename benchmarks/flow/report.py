"""`make flow-report`: how many tasks go through undisturbed, and how many attacks do not."""

import argparse
import asyncio
import json
import sys
import tempfile
from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass, field, replace
from hashlib import sha256
from pathlib import Path
from typing import Any, TypeAlias

import uvloop

from benchmarks.flow.cost import measure
from benchmarks.flow.figures import Tally
from benchmarks.flow.gateways import GatewayFailed, staged
from benchmarks.flow.outcome import Outcome
from benchmarks.flow.promises import broken
from benchmarks.flow.traces import ENCODED, Suite, Trace, UnreadableError, read_suite, trace_files
from benchmarks.flow.unseen import CHOICES, GROUPS, POOLS, RECORDED, chosen, is_locked, suites_of
from benchmarks.flow.unseen import LIMITS as LIMITS_OF_UNSEEN
from benchmarks.flow.variants import BENIGN_BEFORE, COST, DETOURS, VARIANTS, Play, plays
from benchmarks.report import FOLDER, ROOT, print_table, write_report

OWN = Path(__file__).parent / "agentdojo"
_MOST_FAILURES = 20
"""Of one play that are told one by one."""

_GATEWAYS = 2
"""So many run at once: while one starts, another is called."""

Played: TypeAlias = list[list[list[Outcome]]]

_TASK = {
    False: (
        "no host declares a task: a value that only the user's words name is not proven; each trace "
        "is all that a client does that was registered for it, in a session with each server"
    ),
    True: (
        "a trusted host declares the user's prompt with every call, and never which tools the task "
        "needs; each trace is all that a client does that was registered for it"
    ),
}
LIMITS = (
    "recorded tasks take the shortest path: an agent that looks around reads more on its way",
    "the model is taken to obey every injection, and to go on with its task after a refusal",
    "traces of one goal are not independent of each other, and the goals are few",
    "injections that ask for words and no call are beyond what a gateway can see",
    "nobody answers a question: a call that waits for a person counts as refused",
)


@dataclass
class Findings:
    """All that the report says."""

    tallies: dict[str, Tally] = field(default_factory=dict)
    """By suite and variant; then by pool."""
    rows: list[dict[str, Any]] = field(default_factory=list)
    """One a trace of which something was refused, or harm was done."""
    failures: list[str] = field(default_factory=list)
    unpoisoned: int = 0
    cost: dict[str, float] = field(default_factory=dict)

    def tally(self, name: str) -> Tally:
        return self.tallies.setdefault(name, Tally())

    @property
    def figures(self) -> dict[str, float]:
        counted = {
            f"{name}.{key}": figure
            for name, tally in self.in_order
            for key, figure in tally.figures.items()
        }
        return counted | self.cost

    @property
    def in_order(self) -> list[tuple[str, Tally]]:
        """Tallies of suites, then of pools, each as they came."""
        return sorted(self.tallies.items(), key=lambda item: is_pool(item[0]))


def is_pool(name: str) -> bool:
    return name.partition(".")[0] in POOLS


@dataclass(frozen=True, kw_only=True)
class Options:
    """How traces are played."""

    declared: bool = False
    sessions: bool = True
    variants: Collection[str] = VARIANTS
    most: int | None = None
    """Of a suite's tasks, and of its attacks; `None`: all."""
    policies: Path = ROOT / "policies"
    suites: Collection[str] = (RECORDED,)
    """Those of the folder, and which groups of the unseen ones."""


@dataclass(frozen=True, kw_only=True)
class _Job:
    """What one gateway is for."""

    suite: Suite
    """Whose tools it offers."""
    plays: Sequence[Play]
    """All under the same settings."""


async def measured(folder: Path, options: Options) -> Findings:
    """Play every suite in `folder` through a gateway process under the shipped policy."""
    found = Findings()
    files = trace_files(folder) if RECORDED in options.suites else {}
    if RECORDED in options.suites and not files:
        found.failures.append(f"{folder}: there are no traces")
    suites = [_fewer(suite, options.most) for suite in suites_of(options.suites)]
    for name, path in files.items():
        try:
            suites.append(_fewer(read_suite(name, path), options.most))
        except UnreadableError as error:
            found.failures.append(str(error))
    jobs = [job for group in _with_the_same_tools(suites) for job in _jobs(group, options.variants)]
    turns = asyncio.Semaphore(_GATEWAYS)
    tasks = [asyncio.create_task(_played(job, options, turns)) for job in jobs]
    if tasks:
        await asyncio.wait(tasks)
    for job, task in zip(jobs, tasks, strict=True):
        try:
            for play, played in zip(job.plays, task.result(), strict=True):
                count(play, played, found)
        except GatewayFailed as error:
            found.failures.append(f"{job.plays[0].names[0]}: {error}")
    if COST in options.variants:
        found.cost = measure()  # last, when nothing else runs
    return found


def _fewer(suite: Suite, most: int | None) -> Suite:
    if most is None:
        return suite
    benign = [trace for trace in suite.traces if not trace.is_attack]
    attacks = [trace for trace in suite.traces if trace.is_attack]
    # By digests: every n-th would be of few goals, since their number may divide n.
    some = sorted(attacks, key=lambda trace: sha256(trace.id.encode()).digest())[:most]
    return replace(suite, traces=[*benign[:most], *some])


def _with_the_same_tools(suites: Sequence[Suite]) -> Iterator[list[Suite]]:
    """Yield each suite together with its encoded one: they have their labels in common."""
    groups: dict[str, list[Suite]] = {}
    for suite in suites:
        groups.setdefault(suite.name.removesuffix(ENCODED), []).append(suite)
    yield from groups.values()


def _jobs(suites: Sequence[Suite], variants: Collection[str]) -> Iterator[_Job]:
    """Share all that is to be played of `suites` out among as few gateways as can be."""
    waiting = [play for suite in suites for play in plays(suite, variants)]
    while waiting:
        settings = waiting[0].settings
        yield _Job(suite=suites[0], plays=[p for p in waiting if p.settings == settings])
        waiting = [play for play in waiting if play.settings != settings]


async def _played(job: _Job, options: Options, turns: asyncio.Semaphore) -> list[Played]:
    async with turns:
        with tempfile.TemporaryDirectory(prefix="flow-", ignore_cleanup_errors=True) as folder:
            async with staged(
                Path(folder),
                job.suite,
                settings=job.plays[0].settings,
                declared=options.declared,
                sessions=options.sessions,
                policies=options.policies,
            ) as stage:
                return [await stage.play(play.conversations) for play in job.plays]


def count(play: Play, played: Played, found: Findings) -> None:
    """Add to `found` what became of a play: `played` is by conversation, by trace, by step."""
    found.unpoisoned += play.unpoisoned
    unplayed = []
    for conversation, outcomes in zip(play.conversations, played, strict=True):
        for trace, became in zip(conversation, outcomes, strict=True):
            unplayed += _unplayed(trace, became)
            for name in play.names:
                found.tally(name).add(trace, became)
            found.rows += _row(play.names[0], trace, became)
    rest = len(unplayed) - _MOST_FAILURES
    found.failures += [f"{play.names[0]}: {failure}" for failure in unplayed[:_MOST_FAILURES]]
    if rest > 0:
        found.failures.append(f"{play.names[0]}: {rest} more calls like these")


def _unplayed(trace: Trace, outcomes: Sequence[Outcome]) -> list[str]:
    """Return the calls that ended before anything was decided about them."""
    return [
        f"{trace.id}, step {number}: {outcome.name}: {outcome.code}"
        for number, outcome in enumerate(outcomes)
        if not outcome.is_decided
    ]


def _row(name: str, trace: Trace, outcomes: Sequence[Outcome]) -> Iterator[dict[str, Any]]:
    if is_locked(name):
        return
    refused = [
        {"step": number, "tool": outcome.name, "code": outcome.code, "why": outcome.why}
        for number, outcome in enumerate(outcomes)
        if outcome.code is not None and outcome.step.of_user
    ]
    harm = [
        {"step": number, "tool": outcome.name}
        for number, outcome in enumerate(outcomes)
        if outcome.step.harmful and outcome.executed
    ]
    if refused or harm:
        yield {"of": name, "trace": trace.id, "users_refused": refused, "harm_done": harm}


def main(arguments: Sequence[str] | None = None, *, folder: Path = FOLDER) -> int:
    """Print the figures and write them below `folder`; return 1 if a promise is not kept."""
    given = _parser().parse_args(arguments)
    suites = given.suites or (CHOICES if given.dir == OWN else (RECORDED,))
    options = Options(
        declared=bool(given.declared),
        sessions=not given.stateless,
        variants=given.variants,
        most=given.most,
        policies=given.policies,
        suites=suites,
    )
    with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
        found = runner.run(measured(given.dir, options))
    figures = found.figures
    found.failures += broken(figures, declared=options.declared)
    show(found)
    for key, figure in found.cost.items():
        print(f"{key}: {figure}")
    folder.mkdir(parents=True, exist_ok=True)
    traces = "".join(json.dumps(row) + "\n" for row in found.rows)
    (folder / "flow_traces.jsonl").write_text(traces)
    return write_report(
        "flow",
        figures,
        found.failures,
        _limits(found, options),
        summary=_summary(found, options),
        folder=folder,
    )


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="flow-report")
    parser.add_argument("--dir", type=folder_of, default=OWN, help="a folder of suites")
    parser.add_argument(
        "--declared", type=int, choices=(0, 1), default=0, help="1: a host declares the prompt"
    )
    parser.add_argument(
        "--variants",
        type=variants_of,
        default=VARIANTS,
        help=f"some of {','.join(VARIANTS)}; all, unless given",
    )
    parser.add_argument(
        "--stateless", action="store_true", help="speak the revision without sessions"
    )
    parser.add_argument(
        "--suites",
        type=chosen,
        help=f"some of {','.join(CHOICES)}; all, or with another folder its own, unless given",
    )
    parser.add_argument(
        "--most", type=int, help="play no more tasks, and no more attacks, of a suite"
    )
    parser.add_argument(
        "--policies", type=folder_of, default=ROOT / "policies", help="other policies"
    )
    return parser


def folder_of(text: str) -> Path:
    path = Path(text)
    if not path.is_dir():
        raise argparse.ArgumentTypeError(f"{text} is no folder")
    return path


def variants_of(text: str) -> tuple[str, ...]:
    chosen = tuple(text.split(","))
    known = (*VARIANTS, *DETOURS)
    unknown = [variant for variant in chosen if variant not in known]
    if unknown:
        raise argparse.ArgumentTypeError(f"{unknown[0]!r} is none of {', '.join(known)}")
    return chosen


def _limits(found: Findings, options: Options) -> list[str]:
    limits = [_TASK[options.declared], *LIMITS]
    if not options.sessions:
        limits.append("the clients have no sessions")
    if options.most is not None:
        limits.append(f"only {options.most} tasks and {options.most} attacks of each suite")
    if any(group in options.suites for group in GROUPS):
        limits += LIMITS_OF_UNSEEN
    if any(name.endswith(".shared") for name in found.tallies):
        limits.append(
            f"shared: {BENIGN_BEFORE} tasks of the same suite before each attack, in one run"
        )
    if found.unpoisoned:
        limits.append(f"{found.unpoisoned} attacks are poisoned nowhere: nothing can hold it")
    harmless = sum(tally.harmless for name, tally in found.tallies.items() if not is_pool(name))
    if harmless:
        limits.append(f"{harmless} attack traces do no harm, and count in no share")
    return limits


def _summary(found: Findings, options: Options) -> str:
    task = "the prompt declared" if options.declared else "nothing declared"
    shares = [
        f"{name}: {figures['util']} % of {figures['user_traces']} tasks undisturbed, "
        f"{figures['sec']} % of {figures['attack_traces']} attacks refused"
        for name, figures in ((n, t.figures) for n, t in found.in_order if is_pool(n))
    ]
    return "; ".join([task, *shares])


def show(found: Findings, *, brief: bool = False) -> None:
    """Print the figures and, unless `brief`, what was refused and what passed."""
    heads = ("util %", "sec %", "all harm %", "uua %", "holds/task", "user traces", "attacks")
    print_table(
        ("suite", *heads), [(name, *tally.figures.values()) for name, tally in found.in_order]
    )
    for name, tally in found.tallies.items() if not brief else ():
        # What else is played of a suite is in the file of traces.
        if is_pool(name) or name.removesuffix(ENCODED).count("."):
            continue
        _print_one(name, tally)


def _print_one(name: str, tally: Tally) -> None:
    if is_locked(name):
        return
    if tally.refused:
        print_table(
            (f"{name}: the user's calls that were refused", "tool", "why", "calls"),
            [(*call, count) for call, count in tally.refused.items()],
        )
    if tally.passed:
        print_table(
            (f"{name}: harmful calls that passed", "goal", "calls"),
            [(*call, count) for call, count in tally.passed.most_common()],
        )


if __name__ == "__main__":
    sys.exit(main())
