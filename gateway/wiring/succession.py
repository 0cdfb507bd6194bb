"""What holds of the decisions of a configuration, once another one has come into force."""

from gateway.ports import PolicyEngine


class Succession:
    """Whether what was decided under one configuration may still be done: asked of what is in force.

    Calls that are under way when another one comes are carried to their end by the parts that began
    them. That these go on deciding by a policy which is retired lets nothing out.
    """

    def __init__(self, policy: PolicyEngine) -> None:
        self._policy: PolicyEngine | Succession | None = policy

    def holds(self, digest: str) -> bool:
        """Whether what the policy of this name decided may still be done."""
        return self._policy is not None and self._policy.holds(digest)

    def succeed(self, later: "Succession", *, decided_alike: bool) -> None:
        """Have `later` say it from now on, which is in force; none holds if it has others asked too."""
        self._policy = later if decided_alike else None
