"""Programs that call tools: what their grants cover, and what policy learns of them (pure)."""

from collections.abc import Mapping
from typing import Any, Final

from gateway.domain.calls import AccessRequest
from gateway.domain.document import equal
from gateway.domain.flow import Destination
from gateway.domain.labels import Effect
from gateway.domain.paths import parse_path
from gateway.domain.scripts import InScript, ToolGrant
from gateway.domain.tools import OWN, Kind, Target

_HARMLESS: Final = frozenset({Effect.READ, Effect.WRITE})
"""Effects that policy does not expect a place of."""


def covers(grant: ToolGrant, target: Target, arguments: Mapping[str, Any]) -> bool:
    """Whether `grant` is for calling `target` with these arguments; equal means equal as JSON."""
    return (
        target.kind is Kind.TOOL
        and target.server != OWN
        and (target.server, target.name) == (grant.server, grant.tool)
        and all(
            name in arguments and equal(arguments[name], wanted)
            for name, wanted in grant.arguments.items()
        )
    )


def fixes_places(grant: ToolGrant, access: AccessRequest) -> bool:
    """Whether whoever gave `grant` has said every place where this call goes.

    What a person allows beforehand they have not read; so a call may go out on it only to places
    that stand in the grant itself. For a command no place is good, and a tool that is not known to
    say whom it affects names none: of these all arguments have to stand there.
    """
    review = access.review
    if access.effect is Effect.EXECUTE or not (review.names_where or access.effect in _HARMLESS):
        arguments = access.call.message.params.get("arguments") or {}
        return arguments.keys() <= grant.arguments.keys()
    return all(_stands_in(grant, place) for place in (*review.destinations, *review.links))


def _stands_in(grant: ToolGrant, place: Destination) -> bool:
    # One without a value stands for more than could be looked at, wherever those are.
    try:
        return place.value != "" and parse_path(place.path)[0] in grant.arguments
    except ValueError:  # the name of its argument cannot be told from others
        return False


def told_of(script: InScript | None) -> Mapping[str, Any]:
    """Return what policy learns of the program that makes a call: part of the contract's `origin`."""
    if script is None:
        return {"seq": 0, "script_sha256": None, "grants": []}
    return {
        "seq": script.seq,
        "script_sha256": script.script.sha256 or None,
        "grants": [
            {
                "tool": f"{one.server}/{one.tool}",
                "max_calls": one.most,
                "arguments": one.arguments,
                "approval": one.approval_id or None,
            }
            for one in script.script.grants or ()
        ],
    }
