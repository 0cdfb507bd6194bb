"""What a question to a person is about: what an answer is bound to, and how it reads."""

import hmac
from collections.abc import Mapping
from typing import Any

from gateway.domain._value import value
from gateway.domain.approvals import ApprovalRequest
from gateway.domain.calls import AccessRequest, Message
from gateway.domain.decisions import Decision
from gateway.domain.document import Digest, canonical
from gateway.domain.flow import FlowReview
from gateway.domain.quotas import UNCOUNTED
from gateway.errors import ApprovalRequired
from gateway.pins.visible import visible
from gateway.pipeline.decide import told
from gateway.wire.outgoing import Part, part_of

LARGEST_QUESTION_BYTES = 64 * 1024
"""Of the arguments in canonical form. Nobody reads more, and what nobody reads, nobody allows."""

_LONGEST_FORM = 4_000
"""Characters of the arguments that a client's form may have to show; a page of ours has room."""


@value
class Bound:
    """What an answer is bound to."""

    fingerprint: Digest
    scope: Digest
    carried: bytes
    """All that the call carries, in canonical form, for the person who is asked."""


def bound_by(access: AccessRequest, decision: Decision, key: bytes, *, plane: str = "") -> Bound:
    """Return what an answer to this question would be bound to; `key` keeps arguments unguessable.

    An answer to what a `plane` submits is for that plane alone.

    Raises:
        ApprovalRequired: Nobody could read it, so nobody is asked.

    """
    call = access.call
    carried = _carried(call.message, call.message.params)
    over = sorted(quota["quota"] for quota in access.asked.get("usage", UNCOUNTED)["over"])
    common = {
        **({"quotas": over} if over else {}),
        **({"plane": plane} if plane else {}),
        **({"answers": access.answers.digest} if access.answers is not None else {}),
        "method": call.message.method,
        "principal": access.principal.key,
        "run": access.run.id,
        "target": [access.target.server, access.target.kind.value, access.target.name],
        "pin": str(access.pinned.manifest.digest),
        "label": access.run.label.words,
        "reasons": sorted({reason.code for reason in decision.reasons}),
    }
    try:
        spelled = canonical(carried)
        fingerprint = canonical({**common, "carried": carried})
        scope = canonical({**common, "places": _places(access.review), "carried": None})
    except ValueError as error:
        raise _unreadable(decision, str(error)) from error
    if len(spelled) > LARGEST_QUESTION_BYTES:
        raise _unreadable(decision, f"{len(spelled)} bytes of arguments")
    return Bound(
        fingerprint=_keyed(key, fingerprint),
        # Where nobody knows all the places that a call reaches, no other call reaches the same.
        scope=_keyed(key, scope if _knows_places(access.review) else fingerprint),
        # A copy: what is written has many times its size set aside, and this is kept.
        carried=bytes(
            memoryview(canonical(_shown(_carried(call.message, call.params_as_written))))
        ),
    )


def _keyed(key: bytes, spelled: bytes) -> Digest:
    """Return a digest that tells nobody without `key` whether they have guessed what it is of."""
    return Digest(algorithm="hmac-sha256", octets=hmac.digest(key, spelled, "sha256"))


def _places(review: FlowReview) -> list[list[str]]:
    """Return where a call goes, and where it sends whoever follows a link in it."""
    return [[each.path, each.value] for each in (*review.destinations, *review.links)]


def _knows_places(review: FlowReview) -> bool:
    """Whether the review names every place: of very many it names one without a value."""
    return review.names_where and all(each.value for each in (*review.destinations, *review.links))


def _carried(message: Message, params: Mapping[str, Any]) -> Mapping[str, Any]:
    """Return all that a call says beside its target's name and what is about the message itself.

    For nearly every call that is its arguments; what else there is, such as the answers to an
    upstream's own questions, goes out as well.
    """
    told = {"_meta", "name"} if part_of(message, "name") is Part.NAME else {"_meta"}
    return {name: params[name] for name in params if name not in told}


def _shown(carried: Mapping[str, Any]) -> Mapping[str, Any]:
    """Return what a person is shown of that: all of it, and the arguments alone if they are all."""
    found = carried.get("arguments", {})
    return found if carried.keys() <= {"arguments"} and isinstance(found, dict) else carried


def answering(access: AccessRequest) -> tuple[str, ...]:
    """Return a sentence about which question of its server's a message answers, if it answers one."""
    asked = access.answers
    return () if asked is None else (f"It answers what the server asks: {asked.text}",)


def _unreadable(decision: Decision, detail: str) -> ApprovalRequired:
    return ApprovalRequired(
        "a person would have to allow this call, and cannot be shown what it says",
        detail=detail,
        reasons=told(decision),
    )


def question_of(request: ApprovalRequest) -> str:
    """Return the question as one text, for a client to show; nothing in it hides."""
    target = request.target
    parts = [
        f"Let {visible(request.client_name)} call {visible(target.name)} at {target.server}?",
        f"It would send: {visible(request.carried.decode())}",
        *(visible(reason.message) for reason in request.reasons),
        *([f"Note: {visible(request.follows_because)}."] if request.follows_because else []),
        *(visible(sentence) for sentence in request.evidence),
    ]
    return "\n".join(parts)


def fits_a_form(request: ApprovalRequest) -> bool:
    """Whether a client's form can be trusted to show all of the question."""
    said = request.carried.decode()
    # What is long as it stands is not spelled out to tell: that is long work.
    return len(said) <= _LONGEST_FORM and len(visible(said)) <= _LONGEST_FORM
