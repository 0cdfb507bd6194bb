"""What a tool does and what its results are, as its administrator says or, unsaid, at worst."""

from gateway.domain.labels import Effect, Label, ServerRule, ToolRule
from gateway.domain.tools import Manifest


def effect_of(rule: ToolRule, manifest: Manifest) -> Effect:
    """Return the configured effect of a tool, or what its approved `manifest` admits to.

    Unconfigured, a tool reads only if its annotations say `readOnlyHint: true`, JSON's true and
    nothing like it; otherwise it is taken to destroy.
    """
    if rule.effect is not None:
        return rule.effect
    return Effect.READ if manifest.annotations.get("readOnlyHint") is True else Effect.DESTROY


def result_label(rule: ToolRule, server_rule: ServerRule) -> Label:
    """Return the label of a tool's results: its own, else its server's default."""
    return server_rule.default if rule.result is None else rule.result
