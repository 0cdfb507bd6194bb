"""Runs the tests of a mutant: in a copy of the tree, forked from a process that has loaded the rest."""

import faulthandler
import importlib
import os
import shutil
import subprocess
import sys
import tempfile
import traceback
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import NoReturn

from tests.mutants.listed import ROOT, Mutant

COPIED = (
    *("gateway", "hosts", "policies", "tests", "deploy", "docs"),
    *("pyproject.toml", "requirements.txt"),
)
_PYTEST = (
    *("-x", "-q", "-n0", "-p", "no:cacheprovider", "--full"),
    # It would call the clock below off at the first failure; what is torn down may hang, too.
    *("-p", "no:faulthandler"),
    *("-W", "ignore::pytest.PytestAssertRewriteWarning"),
)
_LOADED = ("pytest", "hypothesis", "aiohttp", "joserfc.jws", "mcp.shared.inbound", "sqlite_utils")
"""Modules of others' that most tests need. Each run is forked from here, where they are loaded."""
_LONGEST_S, _LONGEST_OF_ALL_S = 120, 1800
_GREEN, _RED, _CRASHED = 0, 1, 70


@contextmanager
def copied_tree() -> Iterator[Path]:
    """Copy what the tests need, compiled, so that each mutant has only its own file to compile."""
    for name in _LOADED:
        importlib.import_module(name)
    with tempfile.TemporaryDirectory(prefix="mutants-") as folder:
        tree = Path(folder) / "t"
        for part in COPIED:
            _copy(ROOT / part, tree / part)
        # A hash, not a time, tells whether a file was edited since it was compiled.
        compiled = ("-m", "compileall", "-q", "--invalidation-mode", "checked-hash", "gateway")
        subprocess.run([sys.executable, *compiled], cwd=tree, check=True)
        yield tree


def red_already(mutants: Iterable[Mutant], original: Path) -> str:
    """Return what the named tests say of the code as it is; nothing if all of them are green."""
    tests = sorted({name for one in mutants for name in one.tests})
    pid = _begin(original, tests, _LONGEST_OF_ALL_S)
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
            running[_begin(tree, mutant.tests, _LONGEST_S)] = mutant, tree
        pid, status = os.wait()
        mutant, tree = running.pop(pid)
        code, told = _end(tree, status)
        shutil.rmtree(tree)
        shutil.rmtree(_scratch(tree), ignore_errors=True)
        yield mutant, "" if code == _RED else f"{mutant.guard}: pytest exited {code}: {told}"


def _mutated(mutant: Mutant, original: Path, tree: Path) -> Path:
    shutil.copytree(original, tree, symlinks=True, copy_function=os.link)
    edited = tree / mutant.file
    edited.unlink()
    text = (original / mutant.file).read_text()
    edited.write_text(text.replace(mutant.before, mutant.after))
    return tree


def _begin(tree: Path, tests: Sequence[str], longest_s: int) -> int:
    """Run `tests` in `tree`, in a process of its own, and return the process's id."""
    return os.fork() or _run(tree, tests, longest_s)


def _run(tree: Path, tests: Sequence[str], longest_s: int) -> NoReturn:
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
        faulthandler.dump_traceback_later(longest_s, exit=True)
        # Runs at the same moment would sweep each other's folders.
        own = f"--basetemp={_scratch(tree)}"
        status = int(importlib.import_module("pytest").main([*_PYTEST, own, *tests]))
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


def _scratch(tree: Path) -> Path:
    return tree.with_suffix(".d")


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
