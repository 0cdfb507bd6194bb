"""Programs that call tools: where a call stands in one, and what one may call."""

from collections.abc import Mapping
from typing import Any, NewType

from gateway.domain._value import value
from gateway.domain.tools import UpstreamId

ScriptId = NewType("ScriptId", str)


@value
class ToolGrant:
    """Leave for a program to call one tool, at most so often, with arguments that are so.

    It narrows: policy decides on each of these calls as on any other.
    """

    server: UpstreamId
    tool: str
    most: int
    """Calls."""
    arguments: Mapping[str, Any]
    """Members of the arguments, and what each of them must be."""
    approval_id: str = ""
    """The question that a person said yes to; empty where nobody was asked."""
    approved_by: str = ""


@value
class Script:
    """One run of a program, by the gateway or by a host that has a token for it."""

    id: ScriptId
    principal: str
    """`Principal.key` of whose program it is."""
    client_id: str
    sha256: str
    """Of the program's text, in hexadecimal; of a host's program what the host says."""
    grants: tuple[ToolGrant, ...] | None
    """`None`: it may call what its principal may; else nothing that is not here."""
    most: int | None
    """Calls of all tools together; `None` for no bound of its own."""
    parent: str
    """The decision by which it runs."""
    began: float
    """Seconds since the epoch."""
    expires_at: float
    """Seconds since the epoch; no call of it is let through from then on."""


@value
class InScript:
    """Where a call stands in a program."""

    script: Script
    seq: int
    """Counted from 1 in the order in which the program made its calls; 0 where nobody counts."""
