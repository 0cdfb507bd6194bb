"""A deviation: what was usual for somebody, what was seen instead, and in which records."""

from collections.abc import Mapping, Sequence
from dataclasses import field
from enum import StrEnum
from typing import Any

from gateway.domain._value import value


class Kind(StrEnum):
    """What can be out of the ordinary; `unusual_` and this is the record's code."""

    RATE = "rate"
    TOOL = "tool"
    DESTINATION = "destination"
    REFUSALS = "refusals"
    HOUR = "hour"

    @property
    def code(self) -> str:
        return f"unusual_{self.value}"


CODES = frozenset(kind.code for kind in Kind)


class View(StrEnum):
    """Whose behaviour is looked at."""

    PRINCIPAL = "principal"
    CLIENT = "client"
    TOOL = "tool"
    """One principal's use of one tool."""


KINDS: Mapping[View, frozenset[Kind]] = {
    View.PRINCIPAL: frozenset(Kind),
    View.CLIENT: frozenset({Kind.RATE, Kind.REFUSALS}),
    View.TOOL: frozenset({Kind.RATE, Kind.REFUSALS}),
}
"""What is looked for in whose behaviour. What all users of a client do anew is no sign of anything;
a tool's destinations and hours are among its principal's."""


@value
class Subject:
    """Whose behaviour it is; what a view does not tell apart is empty."""

    view: View
    principal: str = ""
    client: str = ""
    server: str = ""
    tool: str = ""

    def __str__(self) -> str:
        if self.view is View.CLIENT:
            return f"the client {self.client}"
        if self.view is View.TOOL:
            return f"{self.principal} with {self.server}/{self.tool}"
        return self.principal

    @property
    def fields(self) -> Mapping[str, str]:
        """The members of an audit record that name it."""
        named = {
            "principal": self.principal,
            "client": self.client,
            "server": self.server,
            "target": self.tool,
        }
        return {name: text for name, text in named.items() if text}


@value
class Deviation:
    """Something out of the ordinary, told once a day for each principal or client and kind."""

    kind: Kind
    subject: Subject
    time: float
    """Of the call that made it one: seconds since the epoch."""
    leaf_index: int
    """Of that call's record."""
    record: str
    """The id of that record."""
    message: str
    """A sentence for people."""
    usual: Mapping[str, Any]
    seen: int
    cases: Sequence[int]
    """Leaf indices of the first records that it rests on."""
    names: Sequence[str] = field(default_factory=tuple)
    """New tools, or keyed hashes of new destinations."""

    @property
    def evidence(self) -> Mapping[str, Any]:
        """What it rests on, as the record keeps it."""
        told = {
            "view": self.subject.view.value,
            "usual": dict(self.usual),
            "seen": self.seen,
            "record": self.record,
            "leaf_index": self.leaf_index,
            "cases": list(self.cases),
        }
        return {**told, "new": list(self.names)} if self.names else told
