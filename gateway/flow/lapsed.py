"""Why an answer to a question about a call counts no more: as sentences that name no data."""

from collections.abc import Iterator

from gateway.domain.approvals import Approval, ApprovalRequest, ApprovalState, Span
from gateway.domain.flow import RunState
from gateway.domain.labels import Label

_RUN_ENDED = "its run has ended"
_REDEFINED = "the definition that it was about has changed, or is approved no more"


def void(request: ApprovalRequest, run: RunState | None, *, approved: bool) -> str:
    """Return why no call can go out by an answer to `request` now; empty if one still can.

    `run` is the one it was asked in, as it is now, and `approved` whether the definition that it
    was about may be called still. Of a run without a session the label was the strictest from the start.
    """
    told: list[str] = []
    if run is None or not run.live:
        told.append(_RUN_ENDED)
    elif run.run.label.join(request.label) != request.label:
        told.append(_read_since(request.label, run.run.label))
    if not approved:
        told.append(_REDEFINED)
    return "; ".join(told)


def why_asked_anew(earlier: Approval, request: ApprovalRequest) -> str:
    """Return why the answer `earlier`, to the very same call, is none to `request`."""
    if earlier.state is ApprovalState.USED:
        return "it was for one call, and that has gone out"
    told = [*_differences(earlier.request, request)]
    if earlier.span is Span.STANDING and not told:
        return "it stands no more"
    if not told and earlier.request.expires_at <= request.asked_at:
        return "it has run out"
    return "; ".join(told) or "what the call carries or does is judged anew"


def _differences(old: ApprovalRequest, new: ApprovalRequest) -> Iterator[str]:
    if old.run != new.run:
        yield _RUN_ENDED
    elif old.label != new.label:
        yield _read_since(old.label, new.label)
    if old.pin_digest != new.pin_digest:
        yield "the definition has changed since"
    if _codes(old) != _codes(new):
        since = " since it was changed" if old.policy_digest != new.policy_digest else ""
        yield f"policy asks for other reasons{since}"


def _codes(request: ApprovalRequest) -> frozenset[str]:
    return frozenset(reason.code for reason in request.reasons)


def _read_since(old: Label, new: Label) -> str:
    return f"the run was {_words(old)} and is {_words(new)}"


def _words(label: Label) -> str:
    return f"{label.integrity.word} and {label.confidentiality.word}"
