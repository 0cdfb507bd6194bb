"""What a plane does next whose question named a yes, and was refused all the same.

AuthZEN, Access Request and Approval Profile, completion semantics. That a yes is named never makes one.
"""

from collections.abc import Mapping
from enum import StrEnum
from typing import Any, Final

from gateway.domain.approvals import Approval, ApprovalRequest, ApprovalState
from gateway.errors import GatewayError, RateLimited
from gateway.pipeline.approvals import Requestable

_PATIENCE_S: Final = 5
"""After how many seconds a question that waits is worth another look."""


class Why(StrEnum):
    """Reasons that the profile has for such a refusal, and one of ours."""

    EXPIRED = "approval_expired"
    OUT_OF_SCOPE = "out_of_scope"
    PENDING = "grant_pending"
    POLICY = "policy_denied"
    UNVERIFIABLE = "approval_unverifiable"
    LIMITED = "rate_limited"


_NEXT: Final[Mapping[Why, str]] = {
    Why.EXPIRED: "request",
    Why.OUT_OF_SCOPE: "request",
    Why.PENDING: "retry",
    Why.LIMITED: "retry",
    Why.POLICY: "none",
    Why.UNVERIFIABLE: "none",
}


def next_step(claimed: Approval | None, error: GatewayError) -> Mapping[str, Any]:
    """Return why the yes that a question names did not help, and what to do.

    `claimed` is `None` where it is nobody's, or somebody else's. With `request` the refusal can be submitted.
    """
    why = _why(claimed, error)
    told: dict[str, Any] = {"reason": why.value, "next_action": _NEXT[why]}
    if _NEXT[why] == "retry":
        told["retry_after"] = (
            max(1, error.wait_s) if isinstance(error, RateLimited) else _PATIENCE_S
        )
    return told


def _why(claimed: Approval | None, error: GatewayError) -> Why:
    if claimed is None:
        return Why.UNVERIFIABLE
    if isinstance(error, RateLimited):
        return Why.LIMITED
    return _of_question(claimed, error.request) if isinstance(error, Requestable) else Why.POLICY


def _of_question(claimed: Approval, asked: ApprovalRequest) -> Why:
    theirs = claimed.request
    if (theirs.target, theirs.carried) != (asked.target, asked.carried):
        return Why.OUT_OF_SCOPE
    match claimed.state:
        case ApprovalState.WAITING if theirs.fingerprint == asked.fingerprint:
            return Why.PENDING
        case ApprovalState.DENIED:
            return Why.UNVERIFIABLE
        case _:
            # It has run out, was used, was taken back; or the run, its label, the definition or
            # the reasons are others.
            return Why.EXPIRED
