"""A process that has loaded all tests, and forks the workers of a run from there.

Each worker loads every test, and says which there are: thirteen thousand take it half a minute of a slow
processor, and there are more workers than processors. What is forked finds the modules loaded, and has
left to do a sixth of that.

    python -m tests.loaded DESCRIPTOR WORKERS [ARGUMENTS OF PYTEST]
"""

import gc
import importlib
import json
import os
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path
from shlex import quote

import pytest

ROOT = Path(__file__).parent.parent
STAND_IN = Path(__file__).with_name("forked_worker.py")
_WITHOUT_THREADS = {
    "OPENBLAS_NUM_THREADS": "1",
    "JE_ARROW_MALLOC_CONF": "background_thread:false",
}
"""For libraries that begin some as they are loaded: a process with threads is not to be forked."""
_MESSAGE_BYTES = 1 << 17
_WITHIN_S = 120
"""How long it waits for a worker: whoever has started it may be gone."""


_started: list[subprocess.Popen[bytes]] = []


def forking(workers: int, arguments: Sequence[str]) -> list[str]:
    """Start such a process, and return for each worker what xdist's `--tx` says, so that it is forked.

    It ends once it has forked them. A worker for which it is not there is started as any other.
    """
    place = Path(tempfile.mkdtemp(prefix="douane-loaded-")) / "workers"
    with socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET) as listening:
        listening.bind(str(place))
        listening.listen(workers)
        words = [sys.executable, "-m", __name__, str(listening.fileno()), str(workers)]
        _started.append(
            subprocess.Popen(
                [*words, *arguments],
                cwd=ROOT,
                env={**os.environ, **_WITHOUT_THREADS},
                stdin=subprocess.DEVNULL,
                stdout=subprocess.DEVNULL,
                stderr=subprocess.DEVNULL,
                pass_fds=[listening.fileno()],
                start_new_session=True,
            )
        )
    python = f"{quote(sys.executable)} -S -E {quote(str(STAND_IN))} {quote(str(place))}"
    return [f"popen//python={python}"] * workers


def end() -> None:
    """End what was started, if it waits for a worker still; those that it has forked go on."""
    while _started:
        process = _started.pop()
        process.terminate()
        process.wait()


def main(descriptor: int, workers: int, arguments: Sequence[str]) -> bool:
    """Load what pytest collects by `arguments`, and fork so many; say whether this is one of them."""
    listening = socket.socket(fileno=descriptor)
    listening.settimeout(_WITHIN_S)
    place = Path(listening.getsockname())
    before = dict(os.environ)
    pytest.main(["--collect-only", "-qq", "-p", "no:cacheprovider", *arguments])
    importlib.import_module("tests.forkserver")  # not before: pytest rewrites what is its own
    os.environ.clear()
    os.environ.update(before)
    gc.freeze()
    signal.signal(signal.SIGCHLD, signal.SIG_IGN)  # nobody waits for them here
    if len(os.listdir("/proc/self/task")) == 1:  # noqa: PTH208 - names are enough
        with suppress(TimeoutError):
            if any(_is_forked(listening) for _ in range(workers)):
                return True
    listening.close()
    shutil.rmtree(place.parent)
    return False


def _is_forked(listening: socket.socket) -> bool:
    """Fork what the next one asks for, and say whether this is it; its end is told by its socket's."""
    asking, _ = listening.accept()
    message, descriptors, *_ = socket.recv_fds(asking, _MESSAGE_BYTES, 3)
    asking.send(b"1")
    if os.fork() > 0:
        asking.close()
        for one in descriptors:
            os.close(one)
        return False
    listening.close()
    asking.detach()
    for mine, usual in zip(descriptors, range(3), strict=True):
        os.dup2(mine, usual)
        os.close(mine)
    os.environ.clear()
    os.environ.update(json.loads(message))
    signal.signal(signal.SIGCHLD, signal.SIG_DFL)
    return True


def _work() -> None:
    """Be the interpreter that was to be started: run what is said to it first (execnet)."""
    from tests import forkserver

    forkserver.forget()
    sys.argv = ["-c"]
    sys.stdin, sys.stdout, sys.stderr = (
        open(number, mode, buffering=1, closefd=False)  # noqa: SIM115 - as long as it runs
        for number, mode in ((0, "r"), (1, "w"), (2, "w"))
    )
    exec(eval(sys.stdin.readline()), {"__name__": "__main__"})
    forkserver.end(0)


if __name__ == "__main__":
    if main(int(sys.argv[1]), int(sys.argv[2]), sys.argv[3:]):
        _work()
