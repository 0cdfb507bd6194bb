"""A process that has loaded what gateways and test servers need, and forks each of them from there.

An interpreter that starts and imports a gateway takes three seconds of a slow processor, and a run of
the tests starts two hundred. What is forked is a process like any other, with an id, a session, an
environment and signals of its own; only what its modules hold when they have just been imported is
copied instead of being made again. `tests.forks` is the other side: all processes of a run ask the
same server, which returns as a program once it has loaded, and goes on behind it.

    python -m tests.forkserver DESCRIPTOR PLACE
"""

import atexit
import fcntl
import gc
import importlib
import json
import os
import resource
import runpy
import secrets
import selectors
import signal
import socket
import sys
import threading
import time
from contextlib import suppress
from pathlib import Path
from typing import Any, NoReturn

from gateway import http1
from gateway.cli import main as douane
from gateway.policy import ids, toolchain
from gateway.web import pages
from gateway.wiring import foundation
from tests import remembered, tables

LOADED = (
    *("uvicorn.protocols.http.httptools_impl", "uvicorn.loops.auto", "uvicorn.lifespan.on"),
    *("mcp.server.mcpserver", "mcp.server.lowlevel", "mcp.client", "sse_starlette"),
    *("mcp.shared.inbound", "gateway.policy.managed", "anyio._backends._asyncio"),
)
"""Besides the gateway, what it or a test server loads while it starts."""

_MESSAGE_BYTES = 1 << 17


def main(descriptor: int, place: Path) -> None:
    """Fork what is asked for at `place` until nobody can ask any more."""
    for name in LOADED:
        importlib.import_module(name)
    if len(os.listdir("/proc/self/task")) > 1:  # noqa: PTH208 - names are enough
        sys.exit("a process with threads is not to be forked")
    remembered.begin()
    tables.begin()
    # What is kept for a process is made here once: tables, templates, authorities, OPA's digest.
    tables.make()
    pages.Pages()
    http1.system_authorities()
    toolchain.find_opa()
    gc.freeze()
    if os.fork() > 0:  # whoever has started it waits for no more than this
        os._exit(0)
    asked = _Server(socket.socket(fileno=descriptor), place).serve()
    if asked is not None:
        _become(asked)


class _Server:
    def __init__(self, listening: socket.socket, place: Path) -> None:
        self._listening, self._place = listening, place
        self._askers: dict[int, socket.socket] = {}
        self._selector = selectors.DefaultSelector()
        self._waiting: dict[int, tuple[int, socket.socket, int]] = {}
        """By the descriptor that names a process: its id, whom to tell how it ended, and who asked for it."""

    def serve(self) -> dict[str, Any] | None:
        """Fork until it is over; in each process that is forked, return what it is to be."""
        self._listening.setblocking(False)
        self._selector.register(self._listening, selectors.EVENT_READ)
        while True:
            for key, _ in self._selector.select()[:1]:  # what is done for one may end another
                if key.fd == self._listening.fileno():
                    self._accepts()
                elif key.fd in self._waiting:
                    self._ended(key.fd)
                elif key.fd in self._askers:
                    asker = self._askers[key.fd]
                    message, descriptors, *_ = socket.recv_fds(asker, _MESSAGE_BYTES, 3)
                    if message and self._is_forked(descriptors, key.fd):
                        return dict(json.loads(message))
                    if not message and self._left(key.fd):
                        return None

    def _accepts(self) -> bool:
        """Take whoever waits to ask, and say whether anybody did."""
        try:
            asker, _ = self._listening.accept()
        except BlockingIOError:
            return False
        self._askers[asker.fileno()] = asker
        self._selector.register(asker, selectors.EVENT_READ)
        return True

    def _is_forked(self, descriptors: list[int], asker: int) -> bool:
        output, errors, told = descriptors
        pid = os.fork()
        if pid == 0:
            os.close(told)
            self._close()
            _connect(output, errors)
            return True
        os.close(output)
        os.close(errors)
        teller = socket.socket(fileno=told)
        named = os.pidfd_open(pid)
        self._waiting[named] = (pid, teller, asker)
        self._selector.register(named, selectors.EVENT_READ)
        _tell(teller, pid)
        return False

    def _ended(self, named: int) -> None:
        pid, teller, _ = self._waiting.pop(named)
        self._selector.unregister(named)
        os.close(named)
        status = os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])
        _tell(teller, status)
        teller.close()

    def _left(self, asker: int) -> bool:
        """End what was forked for one who asks no more, and say whether it was the last."""
        theirs = [named for named, (_, _, by) in self._waiting.items() if by == asker]
        for named in theirs:
            with suppress(ProcessLookupError):
                signal.pidfd_send_signal(named, signal.SIGKILL)
        for named in theirs:
            self._ended(named)
        gone = self._askers.pop(asker)
        self._selector.unregister(gone)
        gone.close()
        return not self._askers and self._is_over()

    def _is_over(self) -> bool:
        """Say whether nobody has come meanwhile; from then on nobody can."""
        with suppress(FileNotFoundError), self._place.with_suffix(".asked").open("rb") as asked:
            fcntl.flock(asked, fcntl.LOCK_EX)  # whoever connects holds it
            if self._accepts():
                return False
            self._place.unlink()
        return True

    def _close(self) -> None:
        """Leave nothing of the server's open in what was forked."""
        self._selector.close()
        self._listening.close()
        for asker in self._askers.values():
            asker.close()
        for named, (_, teller, _) in self._waiting.items():
            os.close(named)
            teller.close()


def _tell(teller: socket.socket, number: int) -> None:
    try:
        teller.send(json.dumps(number).encode())
    except OSError:
        return  # whoever asked is gone


def _become(asked: dict[str, Any]) -> None:
    """Be the process that was asked for; it ends as every interpreter does, but for what it holds."""
    os.setsid()
    os.chdir(asked["cwd"])
    os.environ.clear()
    os.environ.update(asked["environment"])
    time.tzset()
    for which, limits in asked["limits"].items():
        resource.setrlimit(int(which), tuple(limits))
    _forget()
    try:
        _run(asked["module"], asked["arguments"])
    except SystemExit as end:
        if end.code is not None and not isinstance(end.code, int):
            raise
        _end(end.code or 0)
    _end(0)


def _run(module: str, arguments: list[str]) -> None:
    if module == "gateway.cli":
        sys.argv = ["douane", *arguments]
        sys.exit(douane())
    sys.argv = [module, *arguments]
    runpy.run_module(module, run_name="__main__", alter_sys=True)


def _end(status: int) -> NoReturn:
    """Do what is done at the end of an interpreter, apart from taking its modules to pieces.

    They are the server's as well: to let go of each copies most of the memory, for a fifth of a second
    of a processor. Whatever it has made itself and nobody holds is looked for.
    """
    threading._shutdown()  # type: ignore[attr-defined] # waits for threads
    atexit._run_exitfuncs()
    gc.collect()
    for stream in (sys.stdout, sys.stderr):
        stream.flush()
    os._exit(status)


def _connect(output: int, errors: int) -> None:
    nothing = os.open(os.devnull, os.O_RDONLY)
    for mine, usual in ((nothing, 0), (output, 1), (errors, 2)):
        os.dup2(mine, usual)
        os.close(mine)


def _forget() -> None:
    """Make anew what a module makes once for its process, and what is not to be alike in two."""
    foundation._PROCESS = secrets.token_hex(6)
    ids._PROCESS = secrets.token_hex(8)


if __name__ == "__main__":
    main(int(sys.argv[1]), Path(sys.argv[2]))
