"""What each column of the tables is worth: tasks that pass against attacks that are refused.

Each line is the shipped policy with one thing changed in all effects at once, or with another profile.
What loosens a column is what an operator would write who is tired of its questions.

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
from benchmarks.flow.offline import engine_of, measured
from benchmarks.flow.report import OWN, folder_of
from benchmarks.flow.traces import ALL, read_suite, trace_files
from benchmarks.flow.variants import PLAIN
from benchmarks.report import ROOT, print_table

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


def figures(change: Callable[[Flow], None], options: argparse.Namespace) -> Sequence[str]:
    """Return util, sec and questions a task, with the words declared and without."""
    told: list[str] = []
    with tempfile.TemporaryDirectory(prefix="douane-curve-") as folder:
        engine = engine_of(changed(change, Path(folder)))
        for declared in (1, 0):
            options.declared = declared
            suites = (
                read_suite(name, path)
                for each in options.dir or [OWN]
                for name, path in trace_files(each).items()
            )
            tally = measured(suites, engine, options).tallies.get(ALL, Tally()).figures
            told += [f"{tally[key]:g}" for key in ("util", "sec", "holds_per_task")]
    return told


def main(arguments: Sequence[str] | None = None) -> int:
    """Print a line for each change."""
    parser = argparse.ArgumentParser(prog="flow-curve", description=__doc__)
    parser.add_argument("--dir", type=folder_of, action="append", help="a folder of suites")
    parser.add_argument("--most", type=int, default=60, help="no more attacks of a suite")
    options = parser.parse_args(arguments)
    options.variants, options.labels, options.answered = (PLAIN,), None, False
    heads = [f"{when}: {what}" for when in ("declared", "not") for what in ("util", "sec", "holds")]
    rows = []
    for name, change in CHANGES.items():
        rows.append((name, *figures(change, options)))
        print(*rows[-1], sep="; ", file=sys.stderr, flush=True)
    print_table(("what is changed", *heads), rows)
    return 0


if __name__ == "__main__":
    sys.exit(main())
