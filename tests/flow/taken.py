"""What an operator writes down of what is suggested."""

from gateway.domain.labels import ToolRule
from gateway.flow.suggest import Suggestion


def live_rule(suggestion: Suggestion) -> ToolRule:
    """Return the part of `suggestion` that can only make decisions stricter."""
    return ToolRule(
        effect=None if "effect" in suggestion.lowers else suggestion.effect,
        destination=() if "destination" in suggestion.lowers else suggestion.destination,
        payload=suggestion.payload,
        result=suggestion.result,
    )


def accepted_rule(suggestion: Suggestion) -> ToolRule:
    """Return all of `suggestion`, for who has reviewed what it lowers."""
    return ToolRule(
        effect=suggestion.effect,
        destination=suggestion.destination,
        payload=suggestion.payload,
        result=suggestion.result,
        typed=suggestion.typed,
    )
