"""One process of a local server: lines in, lines out, and an end by the book."""

import asyncio
import logging
import signal
from asyncio.subprocess import PIPE, Process
from collections.abc import AsyncIterator
from contextlib import suppress
from functools import partial
from pathlib import Path
from typing import Final, Self

from gateway.domain._value import value
from gateway.processes import ended, send, send_if
from gateway.turns import Pace
from gateway.upstream.faults import too_large, unusable
from gateway.upstream.handover import Handover
from gateway.upstream.jail import ProcessLimits, command, environment
from gateway.upstream.launch import Launch
from gateway.upstream.proxy import ForwardProxy

logger = logging.getLogger(__name__)

_COMPLAINT_BYTES: Final = 64 * 1024
"""Of what one process writes to stderr, as much as is ever looked at."""
_CHUNK_BYTES: Final = 4096


@value
class Patience:
    """How long a process may take, in seconds."""

    read_s: float = 60.0
    """To read what is written to it."""
    grace_s: float = 2.0
    """To end once its input is closed, and again once it is told to (SIGTERM)."""


class Child:
    """A running process. Whoever starts it ends it, with `end`."""

    def __init__(
        self,
        name: str,
        launch: Launch,
        process: Process,
        *,
        line_bytes: int,
        patience: Patience,
        proxy: ForwardProxy | None = None,
    ) -> None:
        self.ended = False
        """Nothing more is written to it, or heard of it."""
        self.name = name
        self._launch = launch
        self._process = process
        self._line_bytes = line_bytes
        self._patience = patience
        self._proxy = proxy
        self._complaints = asyncio.create_task(self._hear_complaints())
        self._end: asyncio.Task[None] | None = None

    @classmethod
    async def start(
        cls,
        name: str,
        launch: Launch,
        limits: ProcessLimits,
        *,
        line_bytes: int,
        patience: Patience,
        proxy: ForwardProxy | None = None,
    ) -> Self:
        """Start the server that we call `name`; what `proxy` lets it reach it reaches until it ends.

        Raises:
            UpstreamFailed: It cannot be started.

        """
        if proxy is None:
            process = await _started(launch, limits, line_bytes)
            return cls(name, launch, process, line_bytes=line_bytes, patience=patience)
        with Handover() as handover:
            process = await _started(launch, limits, line_bytes, handover.number)
            child = cls(
                name, launch, process, line_bytes=line_bytes, patience=patience, proxy=proxy
            )
            served = False
            try:
                proxy.serve(await handover.listener())
                served = True
            except (OSError, TimeoutError) as error:
                raise unusable("its jail has handed out no socket for its proxy") from error
            finally:
                if not served:
                    await child.end()
        return child

    async def write(self, line: bytes) -> None:
        """Hand it one message; `line` holds no line break.

        Raises:
            UpstreamFailed: It has ended, or does not read.

        """
        stdin = self._process.stdin
        if self.ended or stdin is None or stdin.is_closing():
            raise unusable("the process has ended")
        try:
            stdin.write(line + b"\n")
            async with asyncio.timeout(self._patience.read_s):
                await stdin.drain()
        except (OSError, TimeoutError) as error:
            raise unusable("the process does not read") from error

    def post(self, line: bytes) -> None:
        """Hand it a message that it may miss, without waiting for it to be read."""
        stdin = self._process.stdin
        if not self.ended and stdin is not None and not stdin.is_closing():
            stdin.write(line + b"\n")

    async def lines(self) -> AsyncIterator[bytes]:
        """Yield what it writes, line by line, until it ends; of many that are here some in one turn.

        Raises:
            LimitExceeded: A line is too long; where the next one begins is nobody's guess.

        """
        stdout, pace = self._process.stdout, Pace()
        while stdout is not None:
            if pace.is_due:
                await pace.turn()
            try:
                line = await stdout.readuntil(b"\n")
                pace.hand(len(line))
                yield line.strip()
            except asyncio.LimitOverrunError as error:
                raise too_large(f"a line of more than {self._line_bytes} bytes") from error
            except (asyncio.IncompleteReadError, OSError):
                # What it began and did not end is no message.
                return

    async def end(self) -> None:
        """End it: close its input, wait, SIGTERM, wait, SIGKILL (MCP, stdio, shutdown).

        On return neither it nor, in a jail, anything that it has started is there any more.
        """
        self.ended = True
        if self._end is None:
            self._end = asyncio.create_task(self._by_the_book())
        await asyncio.shield(self._end)

    async def _by_the_book(self) -> None:
        # A process that waits for somebody to read what it writes hears of nothing else.
        draining = asyncio.create_task(self._drain())
        if self._process.stdin is not None:
            self._process.stdin.close()
        if not await self._gone():
            self._signal(signal.SIGTERM)
        if not await self._gone():
            self._signal(signal.SIGKILL)
            await self._gone()
        # Also if it has ended: what it started may still be there.
        await ended(self._process, group=True)
        await asyncio.gather(draining, self._complaints)
        if self._proxy is not None:
            await self._proxy.aclose()

    async def _gone(self) -> bool:
        with suppress(TimeoutError):
            async with asyncio.timeout(self._patience.grace_s):
                await self._process.wait()
        return self._process.returncode is not None

    def _signal(self, number: signal.Signals) -> None:
        if not self._launch.jailed:
            self._signal_group(number)
        elif self._process.returncode is None:
            # To the server itself: bwrap passes no signal on.
            _signal_inmates(self._process.pid, number)

    def _signal_group(self, number: signal.Signals) -> None:
        send(self._process, number, group=True)

    async def _drain(self) -> None:
        stdout = self._process.stdout
        while stdout is not None and await stdout.read(_CHUNK_BYTES):
            pass

    async def _hear_complaints(self) -> None:
        """Take whatever it writes to stderr out of its way, and log a bounded part of it."""
        stderr = self._process.stderr
        left = _COMPLAINT_BYTES
        while stderr is not None and (said := await stderr.read(_CHUNK_BYTES)):
            if left > 0:
                logger.debug("server %s says on stderr: %r", self.name, said[:left])
            left -= len(said)


async def _started(
    launch: Launch, limits: ProcessLimits, line_bytes: int, handover: int | None = None
) -> Process:
    try:
        return await asyncio.create_subprocess_exec(
            *command(launch, limits, handover),
            stdin=PIPE,
            stdout=PIPE,
            stderr=PIPE,
            cwd=launch.folder,
            env=environment(launch),
            limit=line_bytes,
            # A group of its own: a signal for us is not one for it, and one for it reaches all.
            start_new_session=True,
            pass_fds=() if handover is None else (handover,),
        )
    except (OSError, ValueError) as error:
        raise unusable(f"it cannot be started: {type(error).__name__}") from error


def _signal_inmates(bwrap: int, number: signal.Signals) -> None:
    """Send a signal to what `bwrap`, a process of ours that runs, has started: the server."""
    for inmate in _children(bwrap):
        send_if(inmate, number, partial(_is_child, bwrap, inmate))


def _is_child(of: int, process: int) -> bool:
    return process in _children(of)


def _children(process: int) -> list[int]:
    try:
        text = Path(f"/proc/{process}/task/{process}/children").read_text()
    except OSError:
        return []
    return [int(word) for word in text.split()]
