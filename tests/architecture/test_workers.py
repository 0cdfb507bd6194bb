"""Workers of a run are forked from a process that has loaded all tests, or started where none is there."""

import shlex
import subprocess
import sys

from tests import loaded

_TOLD = b"'import os, sys; print(os.getpid(), \"tests.forkserver\" in sys.modules)'\n"
_BOOTSTRAP = ["-u", "-c", "import sys;exec(eval(sys.stdin.readline()))"]
"""What execnet starts an interpreter with."""


def run(python: str) -> tuple[int, bool, bool]:
    """Return the process that ran what was said, whether it stands there itself, and what it had loaded."""
    words = [*shlex.split(python), *_BOOTSTRAP]
    with subprocess.Popen(words, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as process:
        out, _ = process.communicate(_TOLD)
    pid, has_loaded = out.decode().split()
    return process.returncode, int(pid) == process.pid, has_loaded == "True"


def test_a_worker_has_loaded_what_is_run_before_it_begins() -> None:
    (spec,) = loaded.forking(1, ["tests/domain/test_value.py"])
    try:
        assert run(spec.partition("python=")[2]) == (0, False, True)
    finally:
        loaded.end()


def test_where_nobody_has_loaded_it_an_interpreter_is_started() -> None:
    python = f"{shlex.quote(sys.executable)} -S -E {shlex.quote(str(loaded.STAND_IN))} /nowhere"
    assert run(python) == (0, True, False)
