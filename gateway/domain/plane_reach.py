"""What passes by a plane as it would through the gateway, by the words in which it asks.

docs/planes.md has it as a table, and `douane check` says what is missing.
"""

from collections.abc import Mapping
from enum import StrEnum
from typing import Final

from gateway.domain.planes import PlaneKind


class Reach(StrEnum):
    """How far something is held on a plane."""

    YES = "yes"
    WORST = "as its worst"
    """Nobody sees it, so it counts as the worst that could come."""
    NO = "no"


_ASKED: Final = (PlaneKind.EXT_AUTHZ, PlaneKind.EXT_MCP, PlaneKind.EXT_PROC)

_ROWS: Final[Mapping[str, tuple[Reach, Reach, Reach]]] = {
    "method, tool, arguments, destinations": (Reach.YES, Reach.YES, Reach.YES),
    "who calls, as the plane has verified it": (Reach.YES, Reach.YES, Reach.YES),
    "headers held against the body": (Reach.YES, Reach.NO, Reach.YES),
    "what was decided on is what is sent": (Reach.NO, Reach.YES, Reach.YES),
    "a list shows what was approved, and only to whom": (Reach.NO, Reach.YES, Reach.YES),
    "results are judged, labelled and on record": (Reach.WORST, Reach.YES, Reach.YES),
    "results are masked, cut or redacted": (Reach.NO, Reach.YES, Reach.YES),
    "errors of a server are judged": (Reach.WORST, Reach.WORST, Reach.YES),
    "nothing passes beside an answer in a stream": (Reach.NO, Reach.NO, Reach.YES),
    "a server's own requests are refused": (Reach.NO, Reach.NO, Reach.YES),
    "GET and DELETE are refused": (Reach.YES, Reach.NO, Reach.YES),
}


def reach_of(kind: PlaneKind) -> Mapping[str, Reach]:
    """Return how far each thing is held on a plane that asks by gRPC in these words."""
    column = _ASKED.index(kind)
    return {thing: row[column] for thing, row in _ROWS.items()}


def missing(kind: PlaneKind) -> tuple[str, ...]:
    """Return what is not held on such a plane."""
    return tuple(thing for thing, reach in reach_of(kind).items() if reach is not Reach.YES)
