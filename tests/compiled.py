"""Compile what a run of the tests loads, each file once and on all processors.

On a fresh clone each worker would do all of it, at the same time as the others: half a minute of each.
What pytest rewrites, so that an `assert` tells what it compared, is kept where pytest looks for it. What
is up to date is left as it is.

    python -m tests.compiled [--quick]
"""

import argparse
import compileall
import importlib.util
import os
from collections.abc import Iterator
from concurrent.futures import ProcessPoolExecutor
from fnmatch import fnmatch
from pathlib import Path

from _pytest.assertion.rewrite import PYC_TAIL, _rewrite_test, _write_pyc_fp, get_cache_dir

from tests.quick import is_left_out

ROOT = Path(__file__).parent.parent
LOADED = ("gateway", "benchmarks", "hosts/python/douane_host", "tests")
REWRITTEN = ("test_*.py", "conftest.py")
_TOLD_AT = slice(8, 16)
"""Where a file of pytest's says of which bytes it was made."""


def main() -> None:
    """Compile all that is loaded; with `--quick` no tests that it leaves out."""
    parser = argparse.ArgumentParser(prog="python -m tests.compiled")
    parser.add_argument("--quick", action="store_true")
    files = list(loaded(ROOT, quick=parser.parse_args().quick))
    with ProcessPoolExecutor(len(os.sched_getaffinity(0))) as workers:
        list(workers.map(compiled, files, chunksize=16))


def loaded(root: Path, *, quick: bool) -> Iterator[Path]:
    """Yield the files that a run loads, or may load."""
    for folder in LOADED:
        for path in sorted((root / folder).rglob("*.py")):
            if "node_modules" not in path.parts and not (quick and is_left_out(path, root)):
                yield path


def compiled(path: Path) -> None:
    """Compile one file, unless that was done."""
    if any(fnmatch(path.name, pattern) for pattern in REWRITTEN):
        rewritten(path)
    else:
        compileall.compile_file(path, quiet=1)


def rewritten(path: Path) -> bool:
    """Have pytest find what it would make of a file, and say whether that was not there yet."""
    kept = kept_in(path)
    told = importlib.util.source_hash(path.read_bytes())
    if kept.exists() and kept.read_bytes()[_TOLD_AT] == told:
        return False
    told, code = _rewrite_test(path, None)  # type: ignore[arg-type] # no options
    kept.parent.mkdir(exist_ok=True)
    new = kept.with_name(f"{kept.name}.{os.getpid()}")
    with new.open("wb") as file:
        _write_pyc_fp(file, told, code)
    new.replace(kept)
    return True


def kept_in(path: Path) -> Path:
    """Return where pytest keeps what it made of a file."""
    return get_cache_dir(path) / f"{path.stem}{PYC_TAIL}"


if __name__ == "__main__":
    main()
