"""Everything stopped: what there is to know of it."""

from gateway.domain._value import value


@value
class Standstill:
    """Who has stopped everything, when (seconds since the epoch), and why."""

    by: str
    at: float
    note: str

    def __str__(self) -> str:
        return f"stopped by {self.by or 'nobody knows whom'}: {self.note}"
