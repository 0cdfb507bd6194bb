"""Programs that call tools: where a call stands in one, and what one may call."""

import hashlib
from collections import Counter
from collections.abc import Iterable, Mapping
from typing import Any, Final, NewType

from gateway.domain._value import value
from gateway.domain.tools import UpstreamId

ScriptId = NewType("ScriptId", str)

MOST_WAITING: Final = 8
"""Programs of one person that wait for somebody; one more ends the one that began first."""
SHARE_WAITING: Final = 64 * 1024**2
"""Bytes of what those hold, unless one of them holds more by itself."""
ALL_WAITING: Final = 1024**3
"""Bytes of what everybody's hold; one more ends the oldest of whoever has most."""
MOST_OF_ONE: Final = 1_000
"""Programs that one person has at once, with whatever clients; one more is not filed."""
SHARE: Final = 8 * 1024**2
"""Bytes that is kept of those."""
MOST: Final = 20_000
"""Programs of everybody."""
MOST_OCTETS: Final = 64 * 1024**2
"""Bytes that is kept of those."""
LONGEST_ARGUMENTS: Final = 64 * 1024
"""Bytes of JSON, of all that the grants of one program say of arguments."""


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
    """`Principal.person` of whose it is: in whose share it is. An earlier version filed none."""
    run: str = ""
    """The run that knows what it has seen, in which alone it goes on after it waited. Empty for a
    host's program, which waits for nobody."""

    @property
    def whose(self) -> str:
        """In whose share it is."""
        return self.person or self.principal


@value
class InScript:
    """Where a call stands in a program."""

    script: Script
    seq: int
    """Counted from 1 in the order in which the program made its calls; 0 where nobody counts."""


def digest_of(code: str) -> str:
    """Return the SHA-256 of a program's text, in hexadecimal."""
    return hashlib.sha256(code.encode(errors="surrogatepass")).hexdigest()


def ended_by(script: Script, octets: int, waiting: Iterable[tuple[Script, int]]) -> list[ScriptId]:
    """Return which of those that wait already must end if `script` is to wait as well.

    `octets` is how many bytes it holds; with each of the others is how many that one does.
    """
    others = sorted(
        (one for one in waiting if one[0].id != script.id), key=lambda one: one[0].began
    )
    own = [one for one in others if one[0].whose == script.whose]
    gone = _oldest(own, len(own) + 1 - MOST_WAITING, _held(own) + octets - SHARE_WAITING)
    left = [one for one in others if one[0].id not in gone]
    if (beyond := _held(left) + octets - ALL_WAITING) > 0:
        by_person = Counter({script.whose: octets})
        for one, size in left:
            by_person[one.whose] += size
        left.sort(key=lambda one: -by_person[one[0].whose])
        gone += _oldest(left, 0, beyond)
    return gone


def _held(waiting: Iterable[tuple[Script, int]]) -> int:
    return sum(size for _, size in waiting)


def _oldest(waiting: Iterable[tuple[Script, int]], number: int, octets: int) -> list[ScriptId]:
    """Return the first of those that wait: at least so many, of at least so many bytes, if there are."""
    gone: list[ScriptId] = []
    for one, size in waiting:
        if len(gone) >= number and octets <= 0:
            break
        gone.append(one.id)
        octets -= size
    return gone
