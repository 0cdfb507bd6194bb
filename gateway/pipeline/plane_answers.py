"""What planes are answered: a yes, a no and why, and what they have to do with it.

Obligations have the form of AuthZEN's obligations profile.
"""

from collections.abc import Collection, Mapping
from dataclasses import replace
from typing import Any

from gateway.domain.decisions import Duty
from gateway.domain.planes import DUTY, REPLACE_RESULT, Plane, Reports
from gateway.errors import ApprovalRequired, Denied, GatewayError, InsufficientScope
from gateway.wire import jsontext
from gateway.wire.authzen import Answer, Reported


def promising(plane: Plane, supported: Collection[str]) -> Plane:
    """Return `plane` with the duties alone that a question says it meets: `supported`.

    It promises no more by that than its operator has.
    """
    met = (one for one in plane.duties if f"{DUTY}{one}" in supported)
    return replace(plane, duties=frozenset(met))


def replaces(plane: Plane) -> bool:
    """Whether it gives out what it is answered with, in place of what came."""
    return plane.reports is Reports.RESULTS and REPLACE_RESULT in plane.duties


def unmet(owed: list[str]) -> Denied:
    return cannot(
        "duty_unsupported", f"this plane does not promise what it would take: {', '.join(owed)}"
    )


def cannot(code: str, why: str) -> Denied:
    return Denied("a plane cannot be told yes to this", reasons=[(code, why)])


def as_answered(rpc_id: str | int | None, reported: Reported) -> bytes:
    """Return what a plane reports as the message that its server will have sent."""
    message = {"jsonrpc": "2.0", "id": rpc_id, reported.member: reported.content}
    return jsontext.write(message).encode()


def released(decision_id: str) -> Answer:
    """Return the yes to a result that may be given out as it came."""
    return Answer(decision=True, context={"decision_id": decision_id})


def replacing(decision_id: str, given: bytes) -> Answer:
    """Return the yes to a result in whose place the message `given` is to be given out."""
    content = jsontext.read_lenient(given, 1 << 10)
    member = "result" if "result" in content else "error"
    owed = _obligation(REPLACE_RESULT, {member: content[member]})
    return Answer(decision=True, context={"decision_id": decision_id, "obligations": [owed]})


def refused(error: GatewayError, decision_id: str, more: Mapping[str, Any] | None = None) -> Answer:
    """Return the no that `error` is, and what `more` is to be told: codes and sentences, and data of nobody."""
    reasons = [{"code": error.code, "message": error.public}]
    reasons += [{"code": code, "message": message} for code, message in error.reasons]
    context: dict[str, Any] = {
        "decision_id": decision_id,
        "reason": (error.reasons[0][0] if error.reasons else error.code),
        "reasons": reasons,
    }
    if isinstance(error, ApprovalRequired) and error.approval_id:
        context["approval_id"] = error.approval_id
        if error.page:
            context["approval_url"] = error.page
    if isinstance(error, InsufficientScope):
        scopes = {"scopes": list(error.scopes)}
        context["obligations"] = [_obligation(Duty.REQUIRE_STEP_UP.value, scopes)]
    return Answer(decision=False, context={**context, **(more or {})})


def _obligation(duty: str, properties: Mapping[str, Any]) -> dict[str, Any]:
    return {"id": "o_1", "type": f"{DUTY}{duty}", "properties": properties}
