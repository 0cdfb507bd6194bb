"""Processes forked from one that has loaded everything (`tests.forkserver`), for a run of the tests.

It is one for a run: whoever asks first starts it, and it ends when nobody is left who could ask.

Outside of a run, in reports and in the demo, each process is started as everywhere else, and so it is
where an environment changes how an interpreter starts.
"""

import fcntl
import json
import os
import resource
import select
import signal
import socket
import subprocess
import sys
import tempfile
import threading
from collections.abc import Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import IO, Any, Protocol

from tests.remembered import KEPT_IN

ROOT = Path(__file__).parent.parent
FORKED = ROOT / "tests" / "forked.py"
_ANSWER_BYTES = 64
_LIMITS = (resource.RLIMIT_NOFILE, resource.RLIMIT_AS, resource.RLIMIT_FSIZE, resource.RLIMIT_CORE)
"""What a child inherits of whoever starts it, and this one of the server."""


class Process(Protocol):
    """What is used of a `subprocess.Popen`."""

    pid: int

    def poll(self) -> int | None: ...
    def wait(self, timeout: float | None = None) -> int: ...
    def send_signal(self, sig: int, /) -> None: ...
    def terminate(self) -> None: ...
    def kill(self) -> None: ...


class Forked:
    """A process that was forked for us: its parent is the server, which tells how it ended."""

    def __init__(self, told: socket.socket) -> None:
        self._told = told
        self._status: int | None = None
        self.pid = self._heard()

    def poll(self) -> int | None:
        """Return how it ended, or `None` while it runs."""
        if self._status is None and select.select([self._told], [], [], 0)[0]:
            self._end()
        return self._status

    def wait(self, timeout: float | None = None) -> int:
        """Return how it ended, once it has."""
        if self._status is None:
            if not select.select([self._told], [], [], timeout)[0]:
                raise subprocess.TimeoutExpired(str(self.pid), timeout or 0)
            self._end()
        assert self._status is not None
        return self._status

    def send_signal(self, sig: int, /) -> None:
        """Send it a signal, unless it has ended."""
        if self.poll() is None:
            os.kill(self.pid, sig)

    def terminate(self) -> None:
        self.send_signal(signal.SIGTERM)

    def kill(self) -> None:
        self.send_signal(signal.SIGKILL)

    def _end(self) -> None:
        self._status = self._heard()
        self._told.close()

    def _heard(self) -> int:
        said = self._told.recv(_ANSWER_BYTES)
        if not said:
            raise RuntimeError("the process that forks is gone")
        number: int = json.loads(said)
        return number


class _Server:
    """The server of this run, as this process asks it, from when something is asked of it first."""

    def __init__(self) -> None:
        self._asking: socket.socket | None = None
        self._lock = threading.Lock()

    def connect(self) -> Path:
        """Return where it listens, from now on until we have ended."""
        place = Path(os.environ[KEPT_IN]) / "forks"
        with self._lock:
            self._asking = self._asking or _connected(place)
        return place

    def ask(self, what: Mapping[str, Any], output: int, errors: int) -> Forked:
        self.connect()
        ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        with theirs, self._lock:
            assert self._asking is not None
            message = json.dumps(what).encode()
            socket.send_fds(self._asking, [message], [output, errors, theirs.fileno()])
        return Forked(ours)

    def end(self) -> None:
        """Ask no more, and return once all has ended that was forked for this process."""
        if self._asking is None:
            return
        with self._asking as asking, suppress(OSError):
            asking.shutdown(socket.SHUT_WR)
            asking.recv(_ANSWER_BYTES)
        self._asking = None


def _connected(place: Path) -> socket.socket:
    """Return a connection to the server that listens at `place`, which is started if there is none."""
    asking = socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    with place.with_suffix(".asked").open("wb") as asked:
        fcntl.flock(asked, fcntl.LOCK_EX)
        with suppress(FileNotFoundError, ConnectionRefusedError):
            asking.connect(str(place))
            return asking
        place.unlink(missing_ok=True)
        with socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET) as listening:
            listening.bind(str(place))
            listening.listen()
            asking.connect(str(place))
            subprocess.run(
                [sys.executable, "-m", "tests.forkserver", str(listening.fileno()), str(place)],
                cwd=ROOT,
                env={**os.environ, "OPENBLAS_NUM_THREADS": "1"},
                stdin=subprocess.DEVNULL,
                pass_fds=[listening.fileno()],
                start_new_session=True,
                check=True,
            )
    return asking


_server: _Server | None = None


def begin() -> None:
    """From now on processes are forked from a server, which starts when it is first asked."""
    global _server  # noqa: PLW0603 - it is one for the process
    _server = _server or _Server()


def end() -> None:
    """End what the server has forked for this process, and itself if nobody else can ask it."""
    global _server  # noqa: PLW0603 - it is one for the process
    if _server is not None:
        _server.end()
    _server = None


def start(
    module: str,
    arguments: Sequence[str],
    *,
    output: IO[bytes],
    errors: IO[bytes],
    environment: Mapping[str, str],
    cwd: Path = ROOT,
) -> Process | None:
    """Start what `python -m MODULE` runs, or return `None` if it is to be started in earnest."""
    if _server is None or any(name.startswith(("PYTHON", "LD_")) for name in environment):
        return None
    asked = {
        "module": module,
        "arguments": list(arguments),
        "cwd": str(cwd),
        "environment": {**os.environ, **environment},
        "limits": {which: resource.getrlimit(which) for which in _LIMITS},
    }
    return _server.ask(asked, output.fileno(), errors.fileno())


def program(module: str) -> Sequence[str | Path]:
    """Return what a shell, or whoever else starts programs, is to start for a module of ours, in a run.

    It reads nothing, and where it is killed, what it has started is so a little later.
    """
    assert _server is not None
    return [sys.executable, "-IS", FORKED, _server.connect(), module]


def run(
    module: str, arguments: Sequence[str], *, timeout: float, cwd: Path = ROOT
) -> "subprocess.CompletedProcess[str] | None":
    """Run it to its end, and return what it said; `None` likewise."""
    with tempfile.TemporaryFile() as output, tempfile.TemporaryFile() as errors:
        process = start(module, arguments, output=output, errors=errors, environment={}, cwd=cwd)
        if process is None:
            return None
        try:
            status = process.wait(timeout)
        except subprocess.TimeoutExpired:
            process.kill()
            raise
        told = []
        for each in (output, errors):
            each.seek(0)
            told.append(each.read().decode())
        return subprocess.CompletedProcess([module, *arguments], status, *told)
