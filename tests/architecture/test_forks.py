"""What is forked for a test is a process like any other, and ends with whoever asked for it."""

import signal
import tempfile
from typing import IO

import pytest

from tests import forks

LINE = "tests.servers.line"
SLEEPS = "import time; time.sleep(600)"
WHO_FORKS = "import os; print(os.getppid())"
AT_THE_END = (
    "import atexit, threading, time; atexit.register(print, 'atexit'); "
    "threading.Thread(target=lambda: (time.sleep(0.1), print('thread'))).start(); "
)


def asked(by: forks._Server, line: str, output: IO[bytes]) -> forks.Process:
    what = {"module": LINE, "arguments": [line], "cwd": "/", "environment": {}, "limits": {}}
    return by.ask(what, output.fileno(), output.fileno())


def test_it_ends_with_whoever_asked_for_it_and_others_go_on() -> None:
    one, other = forks._Server(), forks._Server()
    with tempfile.TemporaryFile() as output:
        ours, theirs = asked(one, SLEEPS, output), asked(other, SLEEPS, output)
        one.end()
        assert ours.wait(60) == -signal.SIGKILL
        assert theirs.poll() is None
        other.end()
        assert theirs.wait(60) == -signal.SIGKILL


def test_all_of_a_run_ask_the_same_server() -> None:
    found = set()
    for _ in range(2):
        server = forks._Server()
        with tempfile.TemporaryFile() as output:
            assert asked(server, WHO_FORKS, output).wait(60) == 0
            output.seek(0)
            found.add(output.read().decode())
        done = forks.run(LINE, [WHO_FORKS], timeout=60)
        assert done is not None
        found.add(done.stdout)
        server.end()
    assert len(found) == 1


@pytest.mark.parametrize(
    ("end", "status"), [("pass", 0), ("raise SystemExit", 0), ("raise SystemExit(3)", 3)]
)
def test_threads_and_what_is_done_at_the_end_are_waited_for(end: str, status: int) -> None:
    done = forks.run(LINE, [AT_THE_END + end], timeout=60)
    assert done is not None
    assert (done.returncode, done.stdout, done.stderr) == (status, "thread\natexit\n", "")


@pytest.mark.parametrize(
    ("end", "said"), [("raise SystemExit('why')", "why"), ("1 / 0", "ZeroDivisionError")]
)
def test_whoever_fails_says_why(end: str, said: str) -> None:
    done = forks.run(LINE, [end], timeout=60)
    assert done is not None
    assert done.returncode == 1
    assert said in done.stderr
