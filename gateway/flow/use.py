"""What is reviewed, and what is known for it."""

from collections.abc import Mapping
from dataclasses import field
from typing import Any

from gateway.domain._value import value
from gateway.domain.flow import Task
from gateway.domain.labels import Effect, Tenant, ToolRule
from gateway.domain.standing import StandingAnswer
from gateway.flow.beside import NOTHING, Beside
from gateway.flow.provenance import Provenance


@value
class Use:
    """A use of a tool: what is called with what, and what is known of it."""

    server: str
    tool: str
    rule: ToolRule
    effect: Effect | None
    """`None` for what is no tool, which has neither destinations nor violations."""
    arguments: Mapping[str, Any]
    about: Mapping[str, Any] = field(default_factory=dict)
    """The definition of the tool that a person approved; nothing, where there is none."""
    beside: Beside = NOTHING
    """What goes out besides, which no label speaks of."""

    @property
    def looks(self) -> bool:
        """Whether a review of it asks what was read before."""
        named = bool(self.rule.destination or self.rule.payload) or self.beside is not NOTHING
        return named or (self.is_unlabelled and bool(self.arguments))

    @property
    def is_deed(self) -> bool:
        """Whether it does more than read, which needs more of a user's words."""
        return self.effect not in (None, Effect.READ)

    @property
    def is_unlabelled(self) -> bool:
        """Whether nobody said which arguments say where to, and some may: a labelled read needs none."""
        if self.rule.destination or self.effect is None:
            return False
        return self.effect is not Effect.READ or self.rule.effect is None


@value
class Knowledge:
    """What a destination can be proven with."""

    tenant: Tenant
    task: Task | None
    """What a trusted host declared, and `None` from any other."""
    provenance: Provenance
    answers: tuple[StandingAnswer, ...] = ()
    """Those of people that stand for this use, wherever each goes."""
    home: str = ""
    """The server that what is asked about goes to and nobody else, if that is so."""

    @property
    def prompt(self) -> str | None:
        return None if self.task is None else self.task.prompt
