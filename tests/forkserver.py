"""A process that has loaded what gateways and test servers need, and forks each of them from there.

An interpreter that starts and imports a gateway takes three seconds of a slow processor, and a run of
the tests starts two hundred. What is forked is a process like any other, with an id, a session, an
environment and signals of its own; only what its modules hold when they have just been imported is
copied instead of being made again. `tests.forks` is the other side.

    python -m tests.forkserver DESCRIPTOR
"""

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
import time
from typing import Any

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


def main(descriptor: int) -> None:
    """Fork what is asked for until nobody can ask any more; then end what is still running."""
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
    asked = _Server(socket.socket(fileno=descriptor)).serve()
    if asked is not None:
        _become(asked)


class _Server:
    def __init__(self, asked: socket.socket) -> None:
        self._asked = asked
        self._selector = selectors.DefaultSelector()
        self._waiting: dict[int, tuple[int, socket.socket]] = {}
        """By the descriptor that names a process: its id, and whom to tell how it ended."""

    def serve(self) -> dict[str, Any] | None:
        """Fork until it is over; in each process that is forked, return what it is to be."""
        self._selector.register(self._asked, selectors.EVENT_READ)
        while True:
            for key, _ in self._selector.select():
                if key.fileobj is not self._asked:
                    self._ended(key.fd)
                    continue
                message, descriptors, *_ = socket.recv_fds(self._asked, _MESSAGE_BYTES, 3)
                if not message:
                    self._end_all()
                    return None
                if self._is_forked(descriptors):
                    return dict(json.loads(message))

    def _is_forked(self, descriptors: list[int]) -> bool:
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
        self._waiting[named] = (pid, teller)
        self._selector.register(named, selectors.EVENT_READ)
        _tell(teller, pid)
        return False

    def _ended(self, named: int) -> None:
        pid, teller = self._waiting.pop(named)
        self._selector.unregister(named)
        os.close(named)
        status = os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])
        _tell(teller, status)
        teller.close()

    def _end_all(self) -> None:
        for pid, _ in self._waiting.values():
            os.kill(pid, signal.SIGKILL)

    def _close(self) -> None:
        """Leave nothing of the server's open in what was forked."""
        self._selector.close()
        self._asked.close()
        for named, (_, teller) in self._waiting.items():
            os.close(named)
            teller.close()


def _tell(teller: socket.socket, number: int) -> None:
    try:
        teller.send(json.dumps(number).encode())
    except OSError:
        return  # whoever asked is gone


def _become(asked: dict[str, Any]) -> None:
    """Be the process that was asked for; it ends as every interpreter does."""
    os.setsid()
    os.chdir(asked["cwd"])
    os.environ.clear()
    os.environ.update(asked["environment"])
    time.tzset()
    for which, limits in asked["limits"].items():
        resource.setrlimit(int(which), tuple(limits))
    _forget()
    module, arguments = asked["module"], asked["arguments"]
    if module == "gateway.cli":
        sys.argv = ["douane", *arguments]
        sys.exit(douane())
    sys.argv = [module, *arguments]
    runpy.run_module(module, run_name="__main__", alter_sys=True)


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
    main(int(sys.argv[1]))
