"""A deviation as one sentence for people."""

from collections.abc import Mapping
from typing import Any

from gateway.behaviour.deviations import Kind, Subject
from gateway.behaviour.profile import Profile

_COUNTED = {
    Kind.RATE: "calls in an hour",
    Kind.TOOL: "tools in a day that were never used before",
    Kind.DESTINATION: "destinations in a day that were never sent to before",
    Kind.REFUSALS: "refused calls in a day",
}


def sentence(kind: Kind, subject: Subject, profile: Profile, usual: Mapping[str, Any]) -> str:
    """Return what was seen, and what was usual."""
    if kind is Kind.HOUR:
        return (
            f"{subject}: {profile.seen(kind)} calls between {profile.hour:02}:00 and "
            f"{profile.hour:02}:59 UTC, far from the usual hours of {usual['days']} days"
        )
    return (
        f"{subject}: {profile.seen(kind)} {_COUNTED[kind]}; on {usual['days']} days it was "
        f"{usual['median']:g} as a rule and {usual['most']} at most"
    )
