"""Whose calls are one run, when runs end, and how many there may be."""

from typing import Literal

from pydantic import Field, field_validator

from gateway.config.section import Section, written
from gateway.config.values import Duration

_SHORTEST_IDLE_S = 60.0


class RunsSection(Section):
    of: Literal["client", "person"] = "client"
    """Whose calls are one: what each client does for a person, or what all of theirs do."""
    idle: Duration = written("8h")
    """After so long without a call of its client's a run ends; the next call begins another one."""
    most: int = Field(default=100, ge=1, le=10_000)
    """How many runs a trusted host may have begun for one person at a time."""
    new_task_choice: bool = True
    """Whether people may say on the consent page that a new task begins, which ends the run."""

    @field_validator("idle")
    @classmethod
    def _longer_than_a_pause(cls, idle: float) -> float:
        # An agent that only has to wait for its run to end would wait.
        if idle < _SHORTEST_IDLE_S:
            raise ValueError("a run goes on for at least `1m` without a call")
        return idle
