"""The policy engine's answer, in OPA's words."""

from collections.abc import Mapping
from enum import StrEnum
from typing import Any

from gateway.domain._value import value


class Phase(StrEnum):
    """When policy is asked: about visibility, about a call, about a result."""

    LIST = "list"
    CALL = "call"
    RESULT = "result"


class Verdict(StrEnum):
    ALLOW = "allow"
    ASK = "ask"
    DENY = "deny"


class Duty(StrEnum):
    """Every obligation the gateway can meet. One it does not know makes the answer no answer."""

    REDACT = "redact"
    """`paths`: list of `$.a[*].b`, and `patterns`: list of RE2 expressions."""
    MASK = "mask"
    """`classes`: classes and groups of sensitive data, of which a mark takes the place."""
    TOKENIZE = "tokenize"
    """`classes`, of which a token of the run takes the place, that stands for the value in its calls."""
    DROP = "drop"
    """`classes`: whatever text or number has something of them is left out whole."""
    TRUNCATE = "truncate"
    """`bytes`: how many bytes of text content pass."""
    DROP_STRUCTURED = "drop_structured"
    RATE_LIMIT = "rate_limit"
    """`calls_per_minute`: for this principal and target."""
    REQUIRE_STEP_UP = "require_step_up"
    """`scopes`: what the token must hold."""
    LABEL = "label"
    """`integrity`, `confidentiality`: joined into the result's label, so it can only raise."""


@value
class Reason:
    """Why: a stable code and a sentence."""

    code: str
    message: str


@value
class Obligation:
    """Something the gateway must do if it acts on an allow (XACML 3.0 section 7.18)."""

    duty: Duty
    detail: Mapping[str, Any]
    """The other members of the obligation, checked by `policy.answer`."""


@value
class Decision:
    """One answer. `policy_digest` names the exact policy that gave it."""

    id: str
    verdict: Verdict
    reasons: tuple[Reason, ...]
    obligations: tuple[Obligation, ...] = ()
    policy_digest: str
    candidate: Mapping[str, Any] | None = None
    """What the candidate policy says to the same question, where there is one: `policy_digest`,
    `verdict`, `reasons` (codes), or `error`. It is recorded, and counts for nothing."""
