"""What clients, a server and administrators remember of a run of many gateways, and what its log holds."""

import math
from dataclasses import dataclass, field

RESULT = "result"
NOTHING = ""
"""No answer came: the connection ended, or the client waited no longer."""


@dataclass(frozen=True, kw_only=True)
class Call:
    """One call as its client remembers it."""

    trace: str
    """Its trace id (W3C Trace Context), which the server sees and the log repeats."""
    client: str
    tool: str
    at: int
    """The gateway's number."""
    begun_s: float
    ended_s: float
    answer: str
    """`RESULT`, `NOTHING`, or the code of the refusal."""


@dataclass(kw_only=True)
class Ended:
    """From when on something that calls rest on was over, and until when."""

    what: str
    tool: str = ""
    """Whose calls rest on it; of all tools, if none is named."""
    client: str = ""
    since_s: float = math.inf
    until_s: float = math.inf

    def forbids(self, call: Call) -> bool:
        """Say whether `call` began when it was over already."""
        return (
            self.tool in ("", call.tool)
            and self.client in ("", call.client)
            and self.since_s < call.begun_s < self.until_s
        )


@dataclass(kw_only=True)
class Yes:
    """A person's word for one call."""

    id: str
    over: bool = False
    """Whether the client has heard by an answer that it is used up."""


@dataclass
class History:
    """All of it, by one clock."""

    calls: list[Call] = field(default_factory=list)
    sent: dict[str, list[float]] = field(default_factory=dict)
    """When the server saw each call, by its trace."""
    ended: list[Ended] = field(default_factory=list)
    yeses: list[Yes] = field(default_factory=list)

    def carried(self, at: int, since_s: float) -> float | None:
        """Return when the first call ended that began later and was carried there."""
        found = None
        for call in reversed(self.calls):
            if call.ended_s < since_s:
                break
            if call.at == at and call.answer == RESULT and call.begun_s >= since_s:
                found = call.ended_s
        return found


@dataclass(frozen=True, kw_only=True)
class Recorded:
    """What is looked at of a record."""

    id: str
    kind: str
    trace: str = ""
    decision: str = ""
    approval: str = ""
    code: str = ""
    leaf_index: int


@dataclass(kw_only=True)
class Log:
    """What the database holds in the end."""

    records: list[Recorded] = field(default_factory=list)
    """In the order of their leaf indexes."""
    size: int = 0
    """Of the tree."""
    signed: int = 0
    """What the newest checkpoint covers."""
    left: int = 0
    """How many are durable and were not taken in."""
    altered: list[str] = field(default_factory=list)
    """Where `douane audit verify` did not find it whole."""
