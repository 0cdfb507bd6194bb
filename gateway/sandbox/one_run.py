"""What belongs to one run of a program in Python, which can be parked."""

from typing import Final

from pydantic_monty import __version__

from gateway.domain.programs import Program, SandboxLimits
from gateway.sandbox.bounded import BoundedRun
from gateway.sandbox.driving import Driver
from gateway.sandbox.gate import Gate
from gateway.sandbox.parking import ParkedRun
from gateway.sandbox.screen import Console

ENGINE: Final = f"monty {__version__}"


class OneRun(BoundedRun):
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
        super().__init__(program, limits, gate=gate, console=console, wall_s=wall_s)
        self.driver = driver

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
