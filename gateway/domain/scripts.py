"""Programs that call tools: where a call stands in one, and what one may call."""

import hashlib
from collections.abc import Iterable, Mapping
from typing import Any, Final, NewType

from gateway.domain._value import value
from gateway.domain.tools import UpstreamId

ScriptId = NewType("ScriptId", str)

MOST_WAITING: Final = 8
"""Programs of one principal that wait for a person; one more ends the one that began first."""
MOST_OF_HOSTS: Final = 1_000
"""Programs of hosts that one person has at once, with whatever clients; one more is not filed."""


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
    person: str = ""
    """`Principal.person` of whose it is, where a host runs it: in whose share it is."""
    run: str = ""
    """The run that knows what it has seen, in which alone it goes on after it waited. Empty for a
    host's program, which waits for nobody."""


@value
class InScript:
    """Where a call stands in a program."""

    script: Script
    seq: int
    """Counted from 1 in the order in which the program made its calls; 0 where nobody counts."""


def digest_of(code: str) -> str:
    """Return the SHA-256 of a program's text, in hexadecimal."""
    return hashlib.sha256(code.encode(errors="surrogatepass")).hexdigest()


def ended_by(script: Script, waiting: Iterable[Script]) -> list[ScriptId]:
    """Return which of those that wait already must end if `script` is to wait as well."""
    others = [one for one in waiting if one.principal == script.principal and one.id != script.id]
    others.sort(key=lambda one: one.began)
    return [one.id for one in others[: max(0, len(others) + 1 - MOST_WAITING)]]
