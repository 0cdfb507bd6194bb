"""What a person is asked before a call may go out, and what they answer."""

from collections.abc import Mapping
from enum import StrEnum
from typing import Any, NewType

import orjson

from gateway.domain._value import value
from gateway.domain.decisions import Reason
from gateway.domain.document import Digest
from gateway.domain.flow import RunId
from gateway.domain.labels import Effect, Label
from gateway.domain.tools import Kind, Target

ApprovalId = NewType("ApprovalId", str)


class Span(StrEnum):
    """For how long an answer holds."""

    ONCE = "once"
    """For one call with the very same fingerprint."""
    RUN = "run"
    """For every call of the run whose `scope` is the same."""
    STANDING = "standing"
    """For good: what came of it is a `StandingAnswer`, and no call goes out by this one."""


class ApprovalState(StrEnum):
    WAITING = "waiting"
    """Nobody has answered yet."""
    ALLOWED = "allowed"
    DENIED = "denied"
    USED = "used"
    """An answer for one call, which has gone out."""
    EXPIRED = "expired"
    WITHDRAWN = "withdrawn"
    """Whoever asked does not want to know any more, and nobody had answered."""


@value
class ApprovalRequest:
    """One question to a person: this call, of this principal, with these arguments, as labelled.

    `fingerprint` is a keyed digest over all that an answer is bound to: the principal, the run, the
    method, the target and the digest of its approved definition, the arguments, the run's label, and
    the codes of the reasons. `scope` is one over what an answer for the whole run is bound to: the
    same, with the destinations and links in place of all arguments; `fingerprint` itself where not
    all of them are known. Whatever changes makes another question.
    """

    id: ApprovalId
    fingerprint: Digest
    scope: Digest
    principal: str
    """The `key` of the principal who asks."""
    subject: str
    """Whose call it is as records name them: with the issuer, unless they are ours."""
    user_id: str
    """Whose call it is; empty for a client that acts for itself. Their own yes counts only where
    policy says so."""
    client_id: str
    client_name: str
    run: RunId
    target: Target
    effect: Effect | None
    pin_digest: Digest
    carried: bytes
    """All that the call carries, in canonical form: values take many times as much memory."""
    label: Label
    reasons: tuple[Reason, ...]
    evidence: tuple[str, ...]
    """Sentences about where each destination and payload comes from, for people."""
    decision_id: str
    """Of the decision that asked first."""
    policy_digest: str
    self_approval: bool
    """Whether the person whose call it is might answer, when it was asked; policy may think otherwise
    by now."""
    asked_at: float
    """Seconds since the epoch, of the first time."""
    expires_at: float
    """Until when the question waits; once it is answered, until when the answer holds."""
    asked: int = 1
    """How often the same call was made while the question waited."""
    follows: str = ""
    """The question about the very same call whose answer does not count any more; empty: none."""
    follows_because: str = ""
    """What of that answer is so, and why: `an earlier yes no longer counts: it has run out`."""
    places: tuple[tuple[str, str], ...] = ()
    """Each argument that says where the call goes, with its value; empty where not all are known."""
    may_stand: bool = False
    """Whether policy lets every such call out once a person has said so for good."""
    question: bytes = b""
    """What policy was asked about the call, as JSON, where its person might answer: it is asked again
    when they do."""
    plane: str = ""
    """The plane that submitted it as a request for access; empty where the refusal itself asked."""
    submission: Digest | None = None
    """A keyed digest of what the plane calls its submission (`Idempotency-Key`), if it does."""
    submitted: Digest | None = None
    """A digest of all that it submitted under that name."""

    @property
    def called(self) -> str:
        """What is called, where nothing is told of what the call says: a resource's URI says as much
        as arguments do.
        """
        return "a resource" if self.target.kind is Kind.RESOURCE else self.target.name

    @property
    def person(self) -> str:
        """The `person` of the principal who asks: its key without its client."""
        return self.principal.removesuffix(f"|{self.client_id}")

    @property
    def arguments(self) -> Mapping[str, Any]:
        """Return what the call carries, as values."""
        found: dict[str, Any] = orjson.loads(self.carried)
        return found


@value
class ApprovalRules:
    """How long questions and answers hold, in seconds, and how many people are asked at most."""

    expire_s: float = 3600.0
    """How long a question waits, and how long a yes may be used."""
    denial_holds_s: float = 3600.0
    most_waiting: int = 20
    """Questions of one person that wait at once."""
    most_per_hour: int = 60
    """New questions of one person in an hour."""
    keep_s: float = 30 * 86_400.0
    """How long a question is kept after it has run out."""
    standing_s: float = 90 * 86_400.0
    """How long a standing answer stands."""


@value
class Approval:
    """A question with its answer, as far as there is one."""

    request: ApprovalRequest
    state: ApprovalState
    span: Span = Span.ONCE
    by: str = ""
    """The person's name."""
    by_user_id: str = ""
    at: float | None = None
    note: str = ""
