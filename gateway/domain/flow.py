"""Where data of a call comes from and where it would go. Reports; decides nothing.

A `Run` is the span over which labels accumulate. It is never chosen by the caller: a hint that
is not known joins the run of the whole grant, and is read as untrusted and private besides; and a
new session begins with all that the grant has seen. So neither leaving the hint out nor inventing a
fresh one sheds a label.
"""

from collections.abc import Mapping
from enum import StrEnum
from typing import Any, NewType

from gateway.domain._value import value
from gateway.domain.labels import Integrity, Label

RunId = NewType("RunId", str)


@value
class Source:
    """A result that a run has seen."""

    server: str
    tool: str
    record: int
    """`leaf_index` of the outcome's intent record."""
    label: Label


@value
class Run:
    id: RunId
    label: Label
    sources: tuple[Source, ...] = ()
    part_of: RunId | None = None
    """The run of the whole grant, which sees all that this one sees; `None` for that one itself."""


@value
class Task:
    """What the user asked for, declared by a host that an administrator trusts to do so."""

    prompt: str | None = None
    tools: tuple[str, ...] | None = None
    """Names of the tools that the task needs; `None`: nothing was declared."""


class Proof(StrEnum):
    """Why a destination is known to be good, strongest first; `NONE` is no proof."""

    TENANT = "tenant"
    TASK = "task"
    TYPED = "typed"
    TRUSTED_RESULT = "trusted_result"
    NONE = "none"


@value
class Destination:
    """One leaf of a destination argument."""

    path: str
    """`$.recipients[0]`."""
    value: str
    proof: Proof
    integrity: Integrity
    """Of what proves it: a proof may itself come from where an outsider can write."""
    origin: Mapping[str, Any] | None = None
    """Which source the proof comes from: `{"server", "tool", "record"}`."""


@value
class Match:
    """A piece of an earlier result found in a payload."""

    record: int
    kind: str
    """`exact`, `fragment` or `link`."""
    bytes: int

    """How many bytes of the payload it covers, in UTF-8."""


@value
class Payload:
    """One leaf of a payload argument that holds something of earlier results."""

    path: str
    matches: tuple[Match, ...]


@value
class Violation:
    """A flow that policies commonly forbid; whether one does is not said here."""

    code: str
    message: str


@value
class FlowReview:
    """What a call would move where: the contract's `flow`."""

    label: Label
    sources: tuple[Source, ...] = ()
    destinations: tuple[Destination, ...] = ()
    payload: tuple[Payload, ...] = ()
    violations: tuple[Violation, ...] = ()
