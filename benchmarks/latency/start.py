"""What it takes to start: `python -m benchmarks.latency.start`.

Processor time of everything that a gateway loads before it opens its data directory, in a new process
each, with compiled bytecode and without collection, as `douane serve` does it. The least of some runs
counts, and is told as a multiple of what an interpreter takes that loads nothing.
"""

import os
import subprocess
import sys

from benchmarks.report import ROOT, print_table

RUNS = 9
_LOADS = "import gc; gc.disable(); import gateway.wiring.serving"
_TOLD = "; import time, sys; print(time.process_time(), len(sys.modules))"


def measured(program: str) -> tuple[float, int]:
    """Return the least processor seconds of a process that runs `program`, and its modules."""
    environment = {k: v for k, v in os.environ.items() if k != "PYTHONDONTWRITEBYTECODE"}
    command = [sys.executable, "-c", program + _TOLD]
    runs = []
    for _ in range(RUNS):
        done = subprocess.run(
            command, cwd=ROOT, env=environment, capture_output=True, text=True, check=True
        )
        seconds, modules = done.stdout.split()
        runs.append((float(seconds), int(modules)))
    return min(runs)


def main() -> None:
    """Measure both, and print them."""
    (gateway, modules), (nothing, few) = measured(_LOADS), measured("pass")
    print_table(
        ["", "CPU s", "modules", "times nothing"],
        [
            ["an interpreter", f"{nothing:.3f}", str(few), "1"],
            ["a gateway's imports", f"{gateway:.3f}", str(modules), f"{gateway / nothing:.0f}"],
        ],
    )


if __name__ == "__main__":
    main()
