"""What belongs to one run of a program: its calls, its console, its time."""

import asyncio
from typing import Final

from pydantic_monty import __version__

from gateway.domain.programs import Program, SandboxLimits
from gateway.sandbox.driving import Driver
from gateway.sandbox.gate import Gate
from gateway.sandbox.parking import ParkedRun
from gateway.sandbox.screen import Console

ENGINE: Final = f"monty {__version__}"
FLOOD: Final = 16
"""Times what is shown of a console; who prints more is ended."""


class OneRun:
    """What belongs to one run. Of one event loop."""

    def __init__(
        self,
        program: Program,
        limits: SandboxLimits,
        *,
        gate: Gate,
        driver: Driver,
        console: Console,
        wall_s: float = 0.0,
    ) -> None:
        """Begin, with the time that it `wall_s` has used up already."""
        self.sha256 = program.sha256
        self.limits = limits
        self.gate = gate
        self.driver = driver
        self.console = console
        self._loop = asyncio.get_running_loop()
        self._used_s = wall_s
        self._began: float | None = None
        self._timeout: asyncio.Timeout | None = None

    @property
    def wall_s(self) -> float:
        """Time used up."""
        began = self._began
        return self._used_s if began is None else self._used_s + self._loop.time() - began

    @property
    def left_s(self) -> float:
        """Time left."""
        return self.limits.wall_s - self.wall_s

    @property
    def floods(self) -> bool:
        """Whether it prints without end."""
        return self.console.printed > FLOOD * self.limits.console_bytes

    def bounded(self) -> asyncio.Timeout:
        """Begin the run's time, and return the context that ends with it."""
        self._began = self._loop.time()
        self._timeout = asyncio.timeout(max(0.0, self.left_s))
        return self._timeout

    def printed(self, _: str, text: str) -> None:
        """Take what the program prints, on whichever thread."""
        most = FLOOD * self.limits.console_bytes
        if self.console.printed <= most:
            self.console.write(text)
            if self.console.printed > most:
                self._loop.call_soon_threadsafe(self._hurry)

    def _hurry(self) -> None:
        if self._timeout is not None:
            self._timeout.reschedule(self._loop.time())

    def stopped(self) -> None:
        """Note that the program does nothing any more."""
        self._timeout = None

    def parked(self, snapshot: bytes) -> ParkedRun:
        """Return it as it stands."""
        return ParkedRun(
            engine=ENGINE,
            sha256=self.sha256,
            calls=self.gate.calls,
            waiting=dict(self.driver.waiting),
            console=self.console.kept,
            wall_s=self.wall_s,
            interpreter_s=self.driver.interpreter_s,
            snapshot=snapshot,
        )
