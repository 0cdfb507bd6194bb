"""What a tool does, as its administrator says or, unsaid, at worst."""

from gateway.domain.labels import Effect, ToolRule
from gateway.domain.tools import Manifest


def effect_of(rule: ToolRule, manifest: Manifest) -> Effect:
    """Return the configured effect of a tool, or what its approved `manifest` admits to.

    Unconfigured, a tool reads only if its annotations say `readOnlyHint: true`, JSON's true and
    nothing like it; otherwise it is taken to destroy.
    """
    if rule.effect is not None:
        return rule.effect
    return Effect.READ if manifest.annotations.get("readOnlyHint") is True else Effect.DESTROY
