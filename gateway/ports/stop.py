"""Everything stopped: what there is to know of it."""

from hashlib import sha256
from typing import Final

from gateway.domain._value import value

LATER: Final = "everything was stopped again since you looked, and stays so; see who did, and why"
"""Said to whoever lets calls go on, of a stop that they have not seen."""


@value
class Standstill:
    """Who has stopped everything, when (seconds since the epoch), and why."""

    by: str
    at: float
    note: str

    @property
    def name(self) -> str:
        """What it is known by to whoever lets calls go on: of another stop it is another one."""
        return sha256(repr((self.by, self.at, self.note)).encode()).hexdigest()[:16]

    def __str__(self) -> str:
        return f"stopped by {self.by or 'nobody knows whom'}: {self.note}"
