"""`make mutants`: remove every guard once and see a test go red.

`tests/mutants.toml` names the guards. Each is removed in a copy of the tree, never in this one, and
the tests that ought to notice are run there. A guard that nobody misses is a failure, and so are an
edit that no longer fits the code and a test that is red before anything was edited.
"""

import argparse
import faulthandler
import importlib
import os
import shutil
import subprocess
import sys
import tempfile
import time
import tomllib
import traceback
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import NoReturn

ROOT = Path(__file__).parent.parent
LIST = ROOT / "tests" / "mutants.toml"
COPIED = ("gateway", "policies", "tests", "deploy", "pyproject.toml")
PYTEST = (
    *("-x", "-q", "-n0", "-p", "no:cacheprovider"),
    *("-W", "ignore::pytest.PytestAssertRewriteWarning"),
)
LOADED = ("pytest", "hypothesis", "aiohttp", "joserfc.jws", "mcp.shared.inbound", "sqlite_utils")
"""Modules of others' that most tests need. Each run is forked from here, where they are loaded."""
_LONGEST_S = 300
_GREEN, _RED, _CRASHED = 0, 1, 70


@dataclass(frozen=True, kw_only=True)
class Mutant:
    """One guard, and the edit that removes it."""

    guard: str
    file: str
    before: str
    """Stands in the file exactly once."""
    after: str
    tests: list[str]
    """The cheapest that must go red."""
    invariant: int = 0
    """Of docs/architecture.md; 0 for a guard that belongs to none of the six."""


def load(path: Path = LIST) -> list[Mutant]:
    """Read the list."""
    with path.open("rb") as file:
        return [Mutant(**entry) for entry in tomllib.load(file)["mutant"]]


def misfits(mutants: Iterable[Mutant]) -> list[str]:
    """Return what no longer fits the code: text that does not stand there exactly once."""
    wrong = []
    for mutant in mutants:
        count = (ROOT / mutant.file).read_text().count(mutant.before)
        if count != 1:
            wrong.append(f"{mutant.guard}: stands {count} times in {mutant.file}: {mutant.before}")
    return wrong


@contextmanager
def copied_tree() -> Iterator[Path]:
    """Copy what the tests need, compiled, so that each mutant has only its own file to compile."""
    with tempfile.TemporaryDirectory(prefix="douane-mutants-") as name:
        tree = Path(name) / "original"
        for part in COPIED:
            _copy(ROOT / part, tree / part)
        # A hash, not a time, tells whether a file was edited since it was compiled.
        compiled = ("-m", "compileall", "-q", "--invalidation-mode", "checked-hash", "gateway")
        subprocess.run([sys.executable, *compiled], cwd=tree, check=True)
        yield tree


def red_already(mutants: Iterable[Mutant], original: Path) -> str:
    """Return what the named tests say of the code as it is; nothing if all of them are green."""
    pid = _begin(original, sorted({name for one in mutants for name in one.tests}))
    status, told = _end(original, os.waitpid(pid, 0)[1])
    return "" if status == _GREEN else f"before any edit, pytest exited {status}: {told}"


def outcomes(mutants: Sequence[Mutant], original: Path) -> Iterator[tuple[Mutant, str]]:
    """Yield each mutant as its run ends, and why nobody noticed it; nothing if a test went red."""
    waiting = list(enumerate(mutants))[::-1]
    running: dict[int, tuple[Mutant, Path]] = {}
    while waiting or running:
        while waiting and len(running) < (os.cpu_count() or 1):
            number, mutant = waiting.pop()
            tree = _mutated(mutant, original, original.parent / str(number))
            running[_begin(tree, mutant.tests)] = mutant, tree
        pid, status = os.wait()
        mutant, tree = running.pop(pid)
        code, told = _end(tree, status)
        shutil.rmtree(tree)
        yield mutant, "" if code == _RED else f"{mutant.guard}: pytest exited {code}: {told}"


def _mutated(mutant: Mutant, original: Path, tree: Path) -> Path:
    shutil.copytree(original, tree, symlinks=True, copy_function=os.link)
    edited = tree / mutant.file
    edited.unlink()
    text = (original / mutant.file).read_text()
    edited.write_text(text.replace(mutant.before, mutant.after))
    return tree


def _begin(tree: Path, tests: Sequence[str]) -> int:
    """Run `tests` in `tree`, in a process of its own, and return the process's id."""
    return os.fork() or _run(tree, tests)


def _run(tree: Path, tests: Sequence[str]) -> NoReturn:
    status = _CRASHED
    try:
        with _output(tree).open("wb") as file:
            os.dup2(file.fileno(), 1)
            os.dup2(file.fileno(), 2)
        os.chdir(tree)
        os.environ |= {"PYTHONPATH": str(tree), "PYTHONDONTWRITEBYTECODE": "1"}
        sys.dont_write_bytecode = True
        sys.path[:] = [str(tree), *(path for path in sys.path if Path(path).resolve() != ROOT)]
        # A test that hangs without its guard has noticed; a suite fails on it just the same.
        faulthandler.dump_traceback_later(_LONGEST_S, exit=True)
        status = int(importlib.import_module("pytest").main([*PYTEST, *tests]))
        sys.stdout.flush()
    except BaseException:  # noqa: BLE001 - whatever it is, it must not get into the parent's code
        traceback.print_exc()
    finally:
        os._exit(status)


def _end(tree: Path, status: int) -> tuple[int, str]:
    """Return the exit status of a run that ended, and the line that says why."""
    lines = _output(tree).read_text(errors="replace").strip().splitlines() or ["no output"]
    failed = [line for line in lines if line.startswith(("FAILED", "ERROR"))]
    code = os.waitstatus_to_exitcode(status)
    # A test that fails may leave something open, over which pytest itself then stumbles.
    return _RED if failed and code == _CRASHED else code, (failed or lines)[-1]


def _output(tree: Path) -> Path:
    return tree.with_suffix(".output")


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
    parser.add_argument("--only", default="", help="guards or files whose name contains this text")
    chosen = parser.parse_args().only
    mutants = [one for one in load() if chosen in one.guard or chosen in one.file]
    if wrong := misfits(mutants):
        print("\n".join(wrong), file=sys.stderr)
        return 1
    began, alive = time.monotonic(), []
    for name in LOADED:
        importlib.import_module(name)
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


if __name__ == "__main__":
    sys.exit(main())
