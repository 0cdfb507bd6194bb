"""What each column of the tables is worth: tasks that pass against attacks that are refused.

Each line is the shipped policy with one thing changed in all effects at once, or with another profile.
What loosens a column is what an operator would write who is tired of its questions. They are played side by
side: a call is reviewed once for all under which the agent has seen the same.

    python -m benchmarks.flow.curve --dir DIR
"""

import argparse
import shutil
import sys
import tempfile
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import yaml

from benchmarks.flow.figures import Tally
from benchmarks.flow.offline import Conversation, engine_of, fewer, outcome_of
from benchmarks.flow.outcome import Outcome
from benchmarks.flow.people import People
from benchmarks.flow.report import OWN, folder_of
from benchmarks.flow.traces import ENCODED, Suite, Trace, configured, read_suite, trace_files
from benchmarks.report import ROOT, print_table
from gateway.policy.wasm import WasmEngine

Flow = dict[str, Any]
"""What stands under `flow` in `data.yaml`."""
TRUSTED = ["tenant", "task", "typed", "trusted_result"]
WEAK = ["picked", "pointed", "own_id", "name", "standing"]
CONTENT = "confidential"


def _profile(name: str) -> Callable[[Flow], None]:
    def change(flow: Flow) -> None:
        flow["profile"] = name

    return change


def _column(**values: Any) -> Callable[[Flow], None]:
    """Return what writes `values` into the row of every effect."""

    def change(flow: Flow) -> None:
        for row in flow["profiles"]["default"]["effects"].values():
            row.update(values)

    return change


def _without(*columns: str) -> Callable[[Flow], None]:
    def change(flow: Flow) -> None:
        for row in flow["profiles"]["default"]["effects"].values():
            for column in columns:
                row.pop(column, None)

    return change


def _private_to(*whose: str) -> Callable[[Flow], None]:
    def change(flow: Flow) -> None:
        flow["profiles"]["default"][CONTENT]["private"] = list(whose)

    return change


CHANGES: Mapping[str, Callable[[Flow], None]] = {
    "default, as shipped": _profile("default"),
    "strict, as shipped": _profile("strict"),
    "looser: no destination needs proof": _column(proof="never"),
    "looser: a weak proof is enough for every effect": _column(accepts=[*TRUSTED, *WEAK]),
    "looser: the words need not ask for a deed": _column(task="any"),
    "looser: a link needs no proof": _column(links="any"),
    "looser: private data go wherever a destination is proven": _private_to(*TRUSTED, *WEAK),
    "looser: a tool without labelled arguments passes": _column(unlabelled="allow"),
    "looser: an untrusted run may do everything": _column(untrusted_run="allow"),
    "tighter: proof is always needed": _column(proof="always"),
    "tighter: a weak proof is never enough": _without("if_asked", "undeclared"),
    "tighter: only the user's and the operator's choice": _column(accepts=["tenant", "task"]),
    "tighter: every deed must be asked for": _column(task="named"),
    "tighter: every link needs proof": _column(links="proven"),
    "tighter: private data go to the tenant alone": _private_to("tenant"),
    "tighter: what names no destination is asked about": _column(empty="ask"),
}


def changed(change: Callable[[Flow], None], folder: Path) -> Path:
    """Return a copy of the shipped policies in `folder`, with `change` made in their tables."""
    policies = folder / "policies"
    shutil.copytree(ROOT / "policies", policies, ignore=shutil.ignore_patterns("*_test.rego"))
    tables = policies / "data.yaml"
    content = yaml.safe_load(tables.read_text())
    change(content["douane"]["flow"])
    tables.write_text(yaml.safe_dump(content))
    return policies


def side_by_side(
    suite: Suite, trace: Trace, engines: Mapping[str, WasmEngine], *, declared: bool
) -> Mapping[str, Sequence[Outcome]]:
    """Return what becomes of each step of `trace` under each of `engines`, as if each played it alone."""
    config, people = configured(suite.settings, Path("labels.yaml")), People()
    people.are_asked = False

    def begun(executed: Sequence[Outcome]) -> Conversation:
        conversation = Conversation(config, suite, engine, people, declared=declared)
        for outcome in executed:
            if outcome.executed:
                conversation.take(outcome.step)
        return conversation

    engine = next(iter(engines.values()))
    found: dict[str, list[Outcome]] = {name: [] for name in engines}
    groups = [(begun(()), list(engines))]
    for step in trace.steps:
        split = []
        for conversation, names in groups:
            question, _ = conversation.asked(trace, step)
            became = {name: outcome_of(step, engines[name].decide(question)) for name in names}
            refused = [name for name in names if not became[name].executed]
            passed = [name for name in names if became[name].executed]
            if refused:
                kept = begun(found[refused[0]]) if passed else conversation
                split.append((kept, refused))
            if passed:
                conversation.take(step)
                split.append((conversation, passed))
            for name in names:
                found[name].append(became[name])
        groups = split
    return found


def figures(
    suites: Sequence[Suite], engines: Mapping[str, WasmEngine], *, declared: bool
) -> Mapping[str, Sequence[str]]:
    """Return util, sec and questions a task under each of `engines`."""
    tallies = {name: Tally() for name in engines}
    for suite in suites:
        for trace in suite.traces:
            for name, became in side_by_side(suite, trace, engines, declared=declared).items():
                tallies[name].add(trace, became)
    keys = ("util", "sec", "holds_per_task")
    found = {name: [f"{tally.figures[key]:g}" for key in keys] for name, tally in tallies.items()}
    for name, told in found.items():
        print("declared" if declared else "not", name, *told, sep="; ", file=sys.stderr, flush=True)
    return found


def engines_of(changes: Mapping[str, Callable[[Flow], None]]) -> Mapping[str, WasmEngine]:
    """Return the engine of the shipped policy under each of `changes`."""
    found = {}
    for name, change in changes.items():
        with tempfile.TemporaryDirectory(prefix="douane-curve-") as folder:
            found[name] = engine_of(changed(change, Path(folder)))
    return found


def main(arguments: Sequence[str] | None = None) -> int:
    """Print a line for each change."""
    parser = argparse.ArgumentParser(prog="flow-curve", description=__doc__)
    parser.add_argument("--dir", type=folder_of, action="append", help="a folder of suites")
    parser.add_argument("--most", type=int, default=60, help="no more attacks of a suite")
    options = parser.parse_args(arguments)
    suites = [
        fewer(read_suite(name, path), options.most)
        for folder in options.dir or [OWN]
        for name, path in trace_files(folder).items()
        if not name.endswith(ENCODED)
    ]
    engines = engines_of(CHANGES)
    told = [figures(suites, engines, declared=declared) for declared in (True, False)]
    heads = [f"{when}: {what}" for when in ("declared", "not") for what in ("util", "sec", "holds")]
    rows = [(name, *(text for figure in told for text in figure[name])) for name in CHANGES]
    print_table(("what is changed", *heads), rows)
    return 0


if __name__ == "__main__":
    sys.exit(main())
