"""What every run of a program has, in whichever language: its calls, its console, its time."""

import asyncio
from typing import Final

from gateway.domain.programs import Program, SandboxLimits
from gateway.sandbox.gate import Gate
from gateway.sandbox.screen import Console

FLOOD: Final = 16
"""Times what is shown of a console; who prints more is ended."""


class BoundedRun:
    """What belongs to one run. Of one event loop."""

    def __init__(
        self,
        program: Program,
        limits: SandboxLimits,
        *,
        gate: Gate,
        console: Console,
        wall_s: float = 0.0,
    ) -> None:
        """Begin, with the time that it `wall_s` has used up already."""
        self.sha256 = program.sha256
        self.limits = limits
        self.gate = gate
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

    def printed(self, _: str, text: str, *, least: int = 0) -> None:
        """Take what the program prints, on whichever thread; it counts `least` characters at least."""
        most = FLOOD * self.limits.console_bytes
        if self.console.printed <= most:
            self.console.write(text)
            self.console.printed += max(0, least - len(text))
            if self.console.printed > most:
                self._loop.call_soon_threadsafe(self._hurry)

    def _hurry(self) -> None:
        if self._timeout is not None:
            self._timeout.reschedule(self._loop.time())

    def stopped(self) -> None:
        """Note that the program does nothing any more."""
        self._timeout = None
