"""`make workflow-report`: a model plays labelled tasks at `/mcp`, in front of all their tools."""

import argparse
import os
import sys
import tempfile
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from statistics import mean
from typing import Any

from benchmarks.discovery.recall import LabelledSet, sets_in
from benchmarks.front.labelled import names_of, tools_of
from benchmarks.front.stage import staged
from benchmarks.report import FOLDER, print_table, write_report
from benchmarks.workflows.model import Model, ModelFailed
from benchmarks.workflows.play import Played, play

TASKS = ("task", "multi")
"""Kinds of queries that need more than one tool, or may."""
_HARMLESS = {"readOnlyHint": True, "openWorldHint": False}
"""What is measured is finding; with the shipped policy a person would have to look at most calls."""
SKIPPED = (
    "workflows: skipped, for no model is named: --model-url URL --model NAME, or OPENAI_BASE_URL and "
    "OPENAI_MODEL; a key is read from OPENAI_API_KEY"
)
LIMITS = (
    "results are simulated: every tool answers that it is done, so a model is not told what it would be",
    "every tool says that it only reads, so that policy stands in the way of none",
    "a labelled set names the tools that one annotator chose: equally good ones count as misses",
    "a model's answers differ from run to run; the model's own count of tokens is told",
)


@dataclass(frozen=True, kw_only=True)
class Task:
    """A request of a user's, and what it needs."""

    text: str
    needs: Sequence[Sequence[str]]
    """Names at `/mcp`, any one of each group."""


def tasks_of(labelled: LabelledSet, most: int) -> list[Task]:
    """Return the first tasks of a set."""
    names = names_of(labelled.rows)
    queries = [query for query in labelled.queries if query["kind"] in TASKS]
    return [
        Task(
            text=str(query["query"]),
            needs=[[names[id_] for id_ in group] for group in query["groups"]],
        )
        for query in queries[:most]
    ]


def measure(
    labelled: LabelledSet, model: Model, folder: Path, most: int
) -> tuple[dict[str, float], list[str]]:
    """Play tasks with everything deferred; return figures, and what went wrong."""
    played: list[tuple[Task, Played]] = []
    failures = []
    tools = {
        server: [{**tool, "annotations": _HARMLESS} for tool in listed]
        for server, listed in tools_of(labelled.rows).items()
    }
    with staged(folder, tools, discovery={"defer": "on"}) as stage:
        for task in tasks_of(labelled, most):
            with stage.front() as front:
                try:
                    played.append((task, play(task.text, model, front)))
                except ModelFailed as error:
                    failures.append(f"{labelled.name}: {error}")
    if not played:
        return {}, failures
    return _figures(labelled.name, played), failures


def _figures(name: str, played: Sequence[tuple[Task, Played]]) -> dict[str, float]:
    each = [one for _, one in played]
    return {
        f"{name}.tasks": len(played),
        f"{name}.needs_met_percent": round(100 * mean(o.met(t.needs) for t, o in played), 1),
        f"{name}.finished_percent": round(100 * mean(one.finished for one in each), 1),
        f"{name}.turns": round(mean(one.turns for one in each), 1),
        f"{name}.searches": round(mean(one.searches for one in each), 1),
        f"{name}.calls": round(mean(len(one.called) for one in each), 1),
        f"{name}.failed_calls": round(mean(one.failed for one in each), 1),
    }


def main(
    arguments: Sequence[str] | None = None,
    environment: Mapping[str, str] = os.environ,
    *,
    folder: Path = FOLDER,
) -> int:
    """Play, print and write; return the exit status."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--dir", type=Path, help="NAME.tools.jsonl and NAME.queries.jsonl, or .gz")
    parser.add_argument("--model-url", default=environment.get("OPENAI_BASE_URL", ""))
    parser.add_argument("--model", default=environment.get("OPENAI_MODEL", ""))
    parser.add_argument("--tasks", type=int, default=20, help="how many of each set")
    asked: Any = parser.parse_args(arguments)
    if not asked.model_url or not asked.model:
        print(SKIPPED)
        return 0
    model = Model(url=asked.model_url, name=asked.model, key=environment.get("OPENAI_API_KEY", ""))
    figures: dict[str, float] = {}
    failures: list[str] = []
    for labelled in sets_in(asked.dir) if asked.dir else []:
        with tempfile.TemporaryDirectory() as place:
            found, wrong = measure(labelled, model, Path(place), asked.tasks)
        figures |= found
        failures += wrong
    print_table(("figure", "value"), sorted(figures.items()))
    figures |= {"tokens_in": model.tokens_in, "tokens_out": model.tokens_out}
    summary = f"{model.name}, {model.tokens_in:,} tokens in, {model.tokens_out:,} out"
    return write_report("workflows", figures, failures, LIMITS, summary=summary, folder=folder)


if __name__ == "__main__":
    sys.exit(main())
