"""Calls whose answer is late: what MCP's extension calls tasks (2026-07-28, io.modelcontextprotocol/tasks).

A task is one call: it was decided on and its intent is on record, and its outcome comes later.
"""

from collections.abc import Collection, Mapping
from dataclasses import field, replace
from enum import StrEnum
from typing import Any, Final, NewType

from gateway.domain._value import value
from gateway.domain.decisions import Decision, Duty, Obligation, Verdict
from gateway.domain.flow import RunId
from gateway.domain.tools import UpstreamId

LateId = NewType("LateId", str)

MOST_ASKED: Final = 100
"""Questions of one task, in all of its life: each is judged, and put on record."""
LONGEST_NAME: Final = 256
"""Bytes of the name of one: it is kept for as long as the task is."""


class Stage(StrEnum):
    """How far a late call is. All but `OPEN` are ends, and none follows another."""

    OPEN = "open"
    COMPLETED = "completed"
    FAILED = "failed"
    CANCELLED = "cancelled"
    WITHHELD = "withheld"
    """Its answer is not given out, at whatever door."""
    LOST = "lost"
    """Its server does not know it any more."""
    EXPIRED = "expired"
    """Its time has passed, and its end was not seen."""


@value
class Progress:
    """What becomes of a late call: all of it that changes."""

    stage: Stage = Stage.OPEN
    answer: str = ""
    """`sha256:...` of what its server first gave for its answer; of the answer nothing is kept."""
    code: str = ""
    """Why it is withheld."""
    recorded: bool = False
    """Whether the log has its outcome."""
    cancel_asked: bool = False
    asked: tuple[str, ...] = ()
    """Names of the questions that its caller was asked."""
    answered: tuple[str, ...] = ()
    """Those whose answer went out, each once."""
    led: bool = False
    """Whether one was answered, here or before the task began, in a run that had read something
    untrusted: what the task is asked for then, the call did not say."""

    @property
    def has_ended(self) -> bool:
        return self.stage is not Stage.OPEN


@value
class LateCall:
    """One call that its server has answered with a task, as it was when that came."""

    id: LateId
    server: UpstreamId
    endpoint: str
    """Where it was made, and where alone its handle is one."""
    principal: str
    """`Principal.key` of whose it is."""
    person: str
    """`Principal.person` of it: in whose share it is."""
    run: RunId
    record: str
    """Id of its intent's record."""
    target: str
    """The tool's name."""
    definition: str
    """`sha256:...` of the definition that it was made under."""
    upstream_id: str = field(repr=False)
    """What its server calls it: whoever has it may be let in by it."""
    params: Mapping[str, Any] = field(repr=False)
    """What it was called with."""
    octets: int
    """About how many bytes `params` take."""
    decision: Mapping[str, Any]
    """What it went out by: `id`, `policy_digest`, `obligations`."""
    joined: Mapping[str, Any] = field(repr=False)
    """What its outcome's record has in common with its intent's."""
    began: float
    """Seconds since the epoch."""
    expires_at: float
    """Seconds since the epoch: nothing of it is given out from then on."""
    poll_s: float
    """How long its caller is to wait between two looks, in seconds."""
    restored: tuple[tuple[str, str], ...] = field(default=(), repr=False)
    """Tokens that its caller wrote, and the values that `params` have in their place."""
    written: Mapping[str, Any] | None = field(default=None, repr=False)
    """The params as its caller wrote them, where tokens stood in them."""
    clean: bool = False
    """Whether nobody outside can have led it: told of the run that made it, whichever asks for its answer."""
    progress: Progress = Progress()

    @property
    def unsaid(self) -> "LateCall":
        """It, with nothing of what the call said."""
        return replace(self, params={}, joined={}, restored=(), written=None)

    @property
    def weight(self) -> int:
        """About how many bytes are kept of it."""
        return self.octets + sum(map(len, self.progress.asked))


def kept_decision(decision: Decision) -> Mapping[str, Any]:
    """Return of an allowing `decision` what is needed again when the answer comes."""
    return {
        "id": decision.id,
        "policy_digest": decision.policy_digest,
        "obligations": [[one.duty.value, dict(one.detail)] for one in decision.obligations],
    }


def decision_of(late: LateCall) -> Decision:
    """Return what `late` went out by, with every duty that it set."""
    return Decision(
        id=late.decision["id"],
        verdict=Verdict.ALLOW,
        reasons=(),
        obligations=tuple(
            Obligation(duty=Duty(duty), detail=detail)
            for duty, detail in late.decision["obligations"]
        ),
        policy_digest=late.decision["policy_digest"],
    )


def ended(progress: Progress, stage: Stage, *, answer: str = "", code: str = "") -> Progress:
    """Return `progress` at an end: the first one stays, whatever is said later."""
    if progress.has_ended:
        return progress
    return replace(progress, stage=stage, answer=answer, code=code)


def asks(progress: Progress, names: Collection[str]) -> Progress:
    """Return `progress` after its caller was asked these questions."""
    new = [name for name in names if name not in progress.asked]
    return replace(progress, asked=(*progress.asked, *new)) if new else progress


def open_in(progress: Progress, names: Collection[str]) -> list[str]:
    """Return those of `names` that were asked and are not answered yet."""
    return [name for name in names if name in progress.asked and name not in progress.answered]
