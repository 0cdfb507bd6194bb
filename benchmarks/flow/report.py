"""`make flow-report`: how many tasks go through undisturbed, and how many attacks do not."""

import argparse
import asyncio
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from benchmarks.flow.figures import Tally
from benchmarks.flow.stage import BEGIN, Outcome, Stage
from benchmarks.flow.traces import Suite, Trace, UnreadableError, read_suite, trace_files
from benchmarks.report import FOLDER, print_table, write_report
from gateway.policy.reload import build
from gateway.ports import PolicyEngine
from gateway.wiring.settings import policy_data, policy_settings

OWN = Path(__file__).parent / "agentdojo"
POOLS = {False: "all", True: "all.b64"}
"""Where a suite counts besides its own figures, by whether its goals are encoded."""

_MOST_FAILURES = 20
"""Of one suite that are told one by one."""

_TASK = {
    False: "no host declares a task: a value that only the user's words name is not proven",
    True: "a trusted host declares the user's prompt, and never which tools the task needs",
}
LIMITS = (
    "recorded tasks take the shortest path: an agent that looks around reads more on its way",
    "the model is taken to obey every injection, and to go on with its task after a refusal",
    "traces of one goal are not independent of each other, and the goals are few",
    "injections that ask for words and no call are beyond what a gateway can see",
    (
        "the client has no session: each trace is all that its grant does, which is read as "
        "untrusted and private from the first call on"
    ),
)


@dataclass
class Findings:
    """All that the report says."""

    tallies: dict[str, Tally] = field(default_factory=dict)
    """By suite, in the order of their names; then by pool."""
    failures: list[str] = field(default_factory=list)

    @property
    def figures(self) -> dict[str, float]:
        return {
            f"{name}.{key}": figure
            for name, tally in self.tallies.items()
            for key, figure in tally.figures.items()
        }


async def measured(folder: Path, *, declared: bool) -> Findings:
    """Replay every suite in `folder` under the shipped policy."""
    found = Findings()
    pools: dict[str, Tally] = {}
    files = trace_files(folder)
    if not files:
        found.failures.append(f"{folder}: there are no traces")
    for name, path in files.items():
        try:
            suite = read_suite(name, path)
        except UnreadableError as error:
            found.failures.append(str(error))
            continue
        policy = await build(
            policy_settings(suite.config), policy_data(suite.config), clock=lambda: BEGIN
        )
        pool = pools.setdefault(POOLS[suite.is_encoded], Tally())
        found.tallies[name] = Tally()
        found.failures += await replay(
            suite, policy, declared=declared, tallies=(found.tallies[name], pool)
        )
        await policy.close()
    found.tallies |= pools
    return found


async def replay(
    suite: Suite, policy: PolicyEngine, *, declared: bool, tallies: Sequence[Tally]
) -> list[str]:
    """Count every trace of `suite` in each of `tallies`; return what could not be replayed."""
    stage = await Stage.of(suite, policy, declared=declared)
    failures = []
    for trace in suite.traces:
        outcomes = await stage.replay(trace)
        failures += _unplayed(trace, outcomes)
        for tally in tallies:
            tally.add(trace, outcomes)
    rest = len(failures) - _MOST_FAILURES
    told = [f"{suite.name}: {failure}" for failure in failures[:_MOST_FAILURES]]
    return [*told, f"{suite.name}: {rest} more calls like these"] if rest > 0 else told


def _unplayed(trace: Trace, outcomes: Sequence[Outcome]) -> list[str]:
    """Return the calls that ended before anything was decided about them."""
    return [
        f"{trace.id}, step {number}: {outcome.step.server}/{outcome.step.tool}: {outcome.code}"
        for number, outcome in enumerate(outcomes)
        if not outcome.is_decided
    ]


def main(arguments: Sequence[str] | None = None, *, folder: Path = FOLDER) -> int:
    """Print the figures and write them below `folder`; return 1 if a trace could not be read."""
    parser = argparse.ArgumentParser(prog="flow-report")
    parser.add_argument("--dir", type=_folder, default=OWN, help="a folder of suites")
    parser.add_argument(
        "--declared", type=int, choices=(0, 1), default=0, help="1: a host declares the prompt"
    )
    given = parser.parse_args(arguments)
    declared = bool(given.declared)
    found = asyncio.run(measured(given.dir, declared=declared))
    _print(found.tallies)
    limits = [_TASK[declared], *LIMITS]
    harmless = sum(
        tally.harmless for name, tally in found.tallies.items() if name in POOLS.values()
    )
    if harmless:
        limits.append(f"{harmless} attack traces do no harm, and count in no share")
    summary = _summary(found, declared)
    return write_report(
        "flow", found.figures, found.failures, limits, summary=summary, folder=folder
    )


def _folder(text: str) -> Path:
    path = Path(text)
    if not path.is_dir():
        raise argparse.ArgumentTypeError(f"{text} is no folder")
    return path


def _summary(found: Findings, declared: bool) -> str:
    task = "the prompt declared" if declared else "nothing declared"
    shares = [
        f"{name}: {figures['util']} % of {figures['user_traces']} tasks undisturbed, "
        f"{figures['sec']} % of {figures['attack_traces']} attacks refused"
        for name, figures in (
            (name, found.tallies[name].figures) for name in POOLS.values() if name in found.tallies
        )
    ]
    return "; ".join([task, *shares])


def _print(tallies: Mapping[str, Tally]) -> None:
    heads = ("util %", "sec %", "all harm %", "uua %", "holds/task", "user traces", "attacks")
    print_table(
        ("suite", *heads),
        [(name, *tally.figures.values()) for name, tally in tallies.items()],
    )
    for name, tally in tallies.items():
        if name in POOLS.values():
            continue
        if tally.refused:
            print_table(
                (f"{name}: the user's calls that were refused", "why", "calls"),
                [(tool, why, count) for (tool, why), count in tally.refused.most_common()],
            )
        if tally.passed:
            print_table((f"{name}: harmful calls that passed", "calls"), tally.passed.most_common())


if __name__ == "__main__":
    sys.exit(main())
