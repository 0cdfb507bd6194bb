"""Which targets a principal may know of: policy's phase `list`, asked once and remembered."""

from collections.abc import Mapping, Sequence

from gateway.domain.calls import Call
from gateway.domain.decisions import Phase, Verdict
from gateway.domain.identity import Principal
from gateway.domain.labels import ServerRule
from gateway.domain.tools import Pin, PinStatus, Target, UpstreamId
from gateway.pipeline.decide import Subject, question
from gateway.ports import Clock, PolicyEngine

_MOST_ANSWERS = 100_000


class Visibility:
    """Answers are kept per principal, policy and pin; a change of any of them asks anew.

    What is asked supposes an approved pin: whether a pin is pending is told apart from whether the
    principal could ever call its target.
    """

    def __init__(
        self, *, policy: PolicyEngine, servers: Mapping[UpstreamId, ServerRule], clock: Clock
    ) -> None:
        self._policy = policy
        self._servers = servers
        self._clock = clock
        self._answers: dict[tuple[object, ...], bool] = {}

    async def of(
        self, call: Call, principal: Principal, pins: Sequence[tuple[Target, Pin]]
    ) -> list[bool]:
        """Say for each target, in order, whether `principal` may know of it.

        Raises:
            PolicyUnavailable: There was no usable answer.

        """
        digest = self._policy.digest
        keys = [_key(digest, call, principal, target, pin) for target, pin in pins]
        unknown = [i for i, key in enumerate(keys) if key not in self._answers]
        if unknown:
            await self._ask(call, principal, [(pins[i], keys[i]) for i in unknown])
        return [self._answers[key] for key in keys]

    async def _ask(
        self,
        call: Call,
        principal: Principal,
        asked: Sequence[tuple[tuple[Target, Pin], tuple[object, ...]]],
    ) -> None:
        now = self._clock()
        questions = [
            question(
                Phase.LIST,
                call,
                principal,
                None,
                Subject.of(
                    target,
                    self._servers[target.server].tool(target.name),
                    pin,
                    suppose=PinStatus.APPROVED,
                ),
                now=now,
            )
            for (target, pin), _ in asked
        ]
        decisions = await self._policy.evaluate_many(questions)
        if len(self._answers) > _MOST_ANSWERS:
            self._answers.clear()
        for (_, key), decision in zip(asked, decisions, strict=True):
            # A policy that was swapped meanwhile answered under another digest; its answer is
            # right, and is asked for again next time.
            self._answers[key] = decision.verdict is not Verdict.DENY


def _key(
    digest: str, call: Call, principal: Principal, target: Target, pin: Pin
) -> tuple[object, ...]:
    return (
        digest,
        principal.key,
        principal.groups,
        principal.scopes,
        call.endpoint,
        call.origin,
        target,
        pin.profile,
        (pin.approved or pin.observed).digest,
        pin.approved_by,
    )
