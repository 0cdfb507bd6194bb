"""Which targets a principal may know of: policy's phase `list`, asked once and remembered."""

from collections.abc import Hashable, Mapping, Sequence
from typing import Any, Final

from gateway.domain.bounded import Bounded, digest_of
from gateway.domain.calls import Call
from gateway.domain.decisions import Decision, Duty, Obligation, Phase, Verdict
from gateway.domain.identity import Principal
from gateway.domain.labels import ServerRule
from gateway.domain.nodes import most_nodes
from gateway.domain.selection import EVERY_SERVER
from gateway.domain.tools import Kind, Pin, PinStatus, Target, UpstreamId
from gateway.errors import PolicyUnavailable
from gateway.pipeline.decide import Subject, question
from gateway.pipeline.filter import meet
from gateway.ports import Clock, PolicyEngine
from gateway.turns import finished, in_steps

_MOST_ANSWERS: Final = 100_000
_OCTETS: Final = 32 * 1024**2
_MOST_TRIES: Final = 3
"""How often a list is asked about that two policies answered."""

_Told = tuple[int, Decision, tuple[Target, Pin]]
"""What policy says of one target, and which of all it is."""


class Visibility:
    """Answers are kept per principal, program, policy and pin; a change of any of them asks anew.

    What is asked supposes an approved pin: whether a pin is pending is told apart from whether the
    principal could ever call its target.
    """

    def __init__(
        self, *, policy: PolicyEngine, servers: Mapping[UpstreamId, ServerRule], clock: Clock
    ) -> None:
        self._policy = policy
        self._servers = servers
        self._clock = clock
        self._answers: Bounded[bytes, bool] = Bounded(most=_MOST_ANSWERS, octets=_OCTETS)

    def standing(self, call: Call, principal: Principal) -> bytes:
        """Return what answers depend on beside the pins: equal ones get equal answers.

        It is a digest: whoever keeps it keeps nothing that a caller chose.
        """
        return digest_of(repr(_who(self._policy.digest, call, principal)))

    async def of(
        self, call: Call, principal: Principal, pins: Sequence[tuple[Target, Pin]]
    ) -> list[bool]:
        """Say for each target, in order, whether `principal` may know of it, and wants to.

        Raises:
            PolicyUnavailable: There was no usable answer.

        """
        if principal.servers == EVERY_SERVER:
            return await self._allowed(call, principal, pins)
        wanted = [pair for pair in pins if principal.servers.shows(pair[0].server)]
        allowed = iter(await self._allowed(call, principal, wanted))
        return [principal.servers.shows(target.server) and next(allowed) for target, _ in pins]

    async def _allowed(
        self, call: Call, principal: Principal, pins: Sequence[tuple[Target, Pin]]
    ) -> list[bool]:
        who, digest = self.standing(call, principal), self._policy.digest
        keys = [_key(who, target, pin) async for some in in_steps(pins) for target, pin in some]
        found = [self._answers.get(key) for key in keys]
        unknown = [i for i, known in enumerate(found) if known is None]
        if unknown:
            asked = await self.asked(call, principal, [pins[i] for i in unknown])
            told = [(i, *each) for i, each in zip(unknown, asked, strict=True)]
            async for some in in_steps(told):
                shown = await finished(principal.person, _work(some), _shown, some)
                # A policy that was swapped meanwhile may have answered: whose answers these are,
                # nobody knows, and the one that was asked may come back. Of several servers one may
                # have answered by another policy than the one that these would be remembered of.
                is_theirs = self.standing(call, principal) == who
                for (i, decision, _), allowed in zip(some, shown, strict=True):
                    found[i] = allowed
                    if is_theirs and decision.policy_digest == digest:
                        self._answers.put(keys[i], allowed)
        return [allowed is True for allowed in found]

    async def asked(
        self, call: Call, principal: Principal, pins: Sequence[tuple[Target, Pin]]
    ) -> list[tuple[Decision, tuple[Target, Pin]]]:
        """Return what policy says of each target, in order; nothing of it is remembered.

        Raises:
            PolicyUnavailable: There was no usable answer, or each time another policy answered in
                between.

        """
        now = self._clock()
        for _ in range(_MOST_TRIES):
            decisions: list[Decision] = []
            async for some in in_steps(pins):
                questions = [self._question(call, principal, *pair, now=now) for pair in some]
                decisions += await self._policy.evaluate_many(questions)
            # All by the same policy: one that was swapped between two steps is asked anew.
            if len({decision.policy_digest for decision in decisions}) <= 1:
                return list(zip(decisions, pins, strict=True))
        raise PolicyUnavailable("the policy changed while it was asked")

    def _question(
        self, call: Call, principal: Principal, target: Target, pin: Pin, *, now: float
    ) -> Mapping[str, Any]:
        rule = self._servers[target.server].tool(target.name)
        subject = Subject.of(target, rule, pin, suppose=PinStatus.APPROVED)
        return question(Phase.LIST, call, principal, None, subject, now=now)


def _work(told: Sequence[_Told]) -> int:
    """Return how much there is to redact, in nodes."""
    pins = (pin for _, decision, (_, pin) in told if _redactions(decision))
    return most_nodes(sum(len((pin.approved or pin.observed).definition.canonical) for pin in pins))


def _shown(told: Sequence[_Told]) -> list[bool]:
    return [_shows(decision, *pair) for _, decision, pair in told]


def _shows(decision: Decision, target: Target, pin: Pin) -> bool:
    """Whether `decision` lets its principal know of what `pin` stands for.

    What was approved is shown as it was approved, or not at all: if a `redact` would change it, not.
    Rates and scopes are asked for when it is used, and the other duties are about results.
    """
    definition = (pin.approved or pin.observed).definition.content
    shown = {"name": target.name} if target.kind is Kind.RESOURCE else definition
    return decision.verdict is not Verdict.DENY and meet(_redactions(decision), shown) == shown


def _redactions(decision: Decision) -> list[Obligation]:
    """Return what `decision` wants to be blotted out of what is listed as it was approved."""
    return [duty for duty in decision.obligations if duty.duty is Duty.REDACT]


def _who(digest: str, call: Call, principal: Principal) -> Hashable:
    return (
        digest,
        principal.key,
        principal.groups,
        principal.scopes,
        principal.servers,
        call.endpoint,
        call.origin,
        None if call.script is None else call.script.script.id,  # whose grants policy is told of
    )


def _key(who: bytes, target: Target, pin: Pin) -> bytes:
    # A resource's name is the caller's own words, as long and as many as they like.
    definition = str((pin.approved or pin.observed).digest)
    approved = repr(pin.approved_by)
    return digest_of(
        who, target.server, target.kind, target.name, pin.profile, definition, approved
    )
