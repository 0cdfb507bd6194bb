"""`make mutants`: remove every guard once and see a test go red.

`tests/mutants.toml` names the guards. Each is removed in a copy of the tree, never in this one, and
the tests that ought to notice are run there. A guard that nobody misses is a failure, and so is an
edit that no longer fits the code.
"""

import argparse
import os
import shutil
import subprocess
import sys
import tempfile
import tomllib
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).parent.parent
LIST = ROOT / "tests" / "mutants.toml"
COPIED = ("gateway", "policies", "tests", "deploy", "pyproject.toml")


@dataclass(frozen=True, kw_only=True)
class Mutant:
    """One guard, and the edit that removes it."""

    guard: str
    file: str
    before: str
    after: str
    tests: list[str]
    invariant: int = 0
    """Of docs/architecture.md; 0 for a guard that belongs to none of the six."""


def load(path: Path = LIST) -> list[Mutant]:
    """Read the list."""
    with path.open("rb") as file:
        return [Mutant(**entry) for entry in tomllib.load(file)["mutant"]]


def misfits(mutants: list[Mutant]) -> list[str]:
    """Return what no longer fits the code: text that does not stand there exactly once."""
    wrong = []
    for mutant in mutants:
        count = (ROOT / mutant.file).read_text().count(mutant.before)
        if count != 1:
            wrong.append(f"{mutant.guard}: stands {count} times in {mutant.file}: {mutant.before}")
    return wrong


def survives(mutant: Mutant) -> str:
    """Return why nobody noticed that the guard is gone; nothing if a test went red."""
    with tempfile.TemporaryDirectory(prefix="douane-mutant-") as name:
        tree = Path(name)
        for part in COPIED:
            _copy(ROOT / part, tree / part)
        edited = tree / mutant.file
        edited.write_text(edited.read_text().replace(mutant.before, mutant.after))
        done = subprocess.run(
            [
                sys.executable,
                "-m",
                "pytest",
                "-x",
                "-q",
                "-n0",
                "-p",
                "no:cacheprovider",
                *mutant.tests,
            ],
            cwd=tree,
            env={**os.environ, "PYTHONPATH": str(tree), "PYTHONDONTWRITEBYTECODE": "1"},
            capture_output=True,
            text=True,
            check=False,
        )
    if done.returncode == 1:
        return ""
    told = (done.stdout + done.stderr).strip().splitlines()[-1:] or ["no output"]
    return f"{mutant.guard}: pytest exited {done.returncode}: {told[0]}"


def _copy(source: Path, target: Path) -> None:
    if source.is_dir():
        shutil.copytree(source, target, symlinks=True, ignore=_left_out)
        if (modules := source / "node" / "node_modules").exists():
            (target / "node" / "node_modules").symlink_to(modules)
    elif source.exists():
        shutil.copy2(source, target)


def _left_out(_: str, names: list[str]) -> set[str]:
    return {name for name in names if name in {"__pycache__", "node_modules"}}


def main() -> int:
    """Return 0 if every guard is missed when it is gone."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--only", default="", help="guards whose name contains this text")
    chosen = parser.parse_args().only
    mutants = [mutant for mutant in load() if chosen in mutant.guard]
    if wrong := misfits(mutants):
        print("\n".join(wrong), file=sys.stderr)
        return 1
    with ThreadPoolExecutor(max_workers=os.cpu_count()) as pool:
        alive = []
        for mutant, why in zip(mutants, pool.map(survives, mutants), strict=True):
            print(f"{'ALIVE ' if why else 'killed'} {mutant.guard}", flush=True)
            alive += [why] if why else []
    print("\n".join(alive), file=sys.stderr)
    print(f"mutants: {len(mutants) - len(alive)} of {len(mutants)} killed")
    return 1 if alive else 0


if __name__ == "__main__":
    sys.exit(main())
