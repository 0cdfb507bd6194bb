"""Calls whose answers are late: how long they are kept, and how many."""

from pydantic import Field

from gateway.config.section import Section, written
from gateway.config.values import Duration


class TasksSection(Section):
    max_ttl: Duration = written("24h")
    """How long a task is kept at most, whatever its server says."""
    most_open: int = Field(default=100, ge=1, le=10_000)
    """How many tasks of one person, with whatever clients, may be under way."""
    poll_floor: Duration = written("1s")
    """How long clients are told to wait between two looks at a task, at least."""
