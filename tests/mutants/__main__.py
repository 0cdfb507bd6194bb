"""`make mutants`: remove every guard once and see a test go red.

The lists beside this file name the guards. Each is removed in a copy of the tree, never in this one,
and the tests that ought to notice are run there. A guard that nobody misses is a failure, and so are
an edit that no longer fits the code and a test that is red before anything was edited.
"""

import argparse
import sys
import time
from collections.abc import Sequence

from tests.mutants.listed import Mutant, load, misfits, room_of
from tests.mutants.runs import copied_tree, outcomes, red_already


def chosen(arguments: argparse.Namespace) -> list[Mutant]:
    """Return the mutants of the named files, folders and guards; all of them if none is named."""
    files, guards = tuple(arguments.file), tuple(arguments.guard)
    mutants = load()
    if files:
        mutants = [one for one in mutants if room_of(one.file) in files or _ends(one.file, files)]
    if guards:
        mutants = [one for one in mutants if any(text in one.guard for text in guards)]
    return mutants


def removed(mutants: Sequence[Mutant]) -> int:
    """Remove each guard once; return 0 if every one of them is missed."""
    began, alive = time.monotonic(), []
    with copied_tree() as original:
        if wrong_before := red_already(mutants, original):
            print(wrong_before, file=sys.stderr)
            return 1
        for mutant, why in outcomes(mutants, original):
            print(f"{'ALIVE ' if why else 'killed'} {mutant.guard}", flush=True)
            alive += [why] if why else []
    if alive:
        print("\n".join(alive), file=sys.stderr)
    killed, took_s = len(mutants) - len(alive), time.monotonic() - began
    print(f"mutants: {killed} of {len(mutants)} killed in {took_s:.0f} s")
    return 1 if alive else 0


def main() -> int:
    """Return 0 if every chosen guard is missed when it is gone."""
    parser = argparse.ArgumentParser(prog="python -m tests.mutants", description=__doc__)
    parser.add_argument(
        *("--file", "-f"), nargs="+", default=[], help="lists (`oauth`) or files (`oauth/gate.py`)"
    )
    parser.add_argument(
        *("--guard", "-g"), nargs="+", default=[], help="guards whose name contains one of these"
    )
    mutants = chosen(parser.parse_args())
    if not mutants:
        parser.error("no such guard")
    if wrong := misfits(mutants):
        print("\n".join(wrong), file=sys.stderr)
        return 1
    return removed(mutants)


def _ends(file: str, names: tuple[str, ...]) -> bool:
    return f"/{file}".endswith(tuple(f"/{name}" for name in names))


if __name__ == "__main__":
    sys.exit(main())
