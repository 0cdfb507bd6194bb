"""`make deploy-report`: the image, the compose file and the systemd unit, built and run.

What the machine has no tools for is not tried, and is named; only what was tried can fail.
"""

import os
import sys
from collections.abc import Callable, Mapping
from typing import Any

from benchmarks.deploy import charted, composed, contained, image, unit
from benchmarks.deploy.engine import Engine, Failed, engine
from benchmarks.deploy.talk import wrong
from benchmarks.deploy.tools import STEPS, here, refused, versions
from benchmarks.report import ROOT, print_table, write_report

TRIALS: Mapping[str, Callable[[Engine], dict[str, Any]]] = {
    "base": image.base,
    "image": image.build,
    "container": contained.tried,
    "charted": charted.tried,
    "compose": composed.tried,
    "unit": unit.tried,
}


def main() -> int:
    """Try what can be tried; return 1 if any of it went wrong."""
    os.chdir(ROOT)
    found, tools = here(), engine(ROOT / "var" / "deploy")
    results: dict[str, str] = {}
    failures: list[str] = []
    done: set[str] = set()
    for step in STEPS:
        why = refused(step, found, done, os.geteuid())
        problems, told = ([], f"not tried: {why}") if why else _tried(step.name, tools)
        results[step.name] = told
        failures += [f"{step.name}: {problem}" for problem in problems]
        if not why and not problems:
            done.add(step.name)
    print_table(("trial", ""), results.items())
    print_table(("with", ""), versions(found).items())
    return write_report(
        "deploy",
        {name: float(name in done) for name in results},
        failures,
        [f"{name}: {told}" for name, told in results.items() if told.startswith("not tried")],
        summary=f"{len(done)} of {len(STEPS)} trials done",
    )


def _tried(name: str, tools: Engine) -> tuple[list[str], str]:
    try:
        said = TRIALS[name](tools)
    except Failed as error:
        return [str(error)], "FAILED"
    for key, text in said.items():
        print(f"{name}.{key}: {text}", flush=True)
    problems = wrong(said, jails=name != "compose") if "ready" in said else []
    return problems, "FAILED" if problems else "done"


if __name__ == "__main__":
    sys.exit(main())
