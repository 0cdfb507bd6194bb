"""Reading a policy engine's answer. A shape we do not know is no answer at all.

Written by hand rather than with a validator because every call passes here.
"""

from collections.abc import Mapping
from typing import Any

from gateway.domain.decisions import Decision, Duty, Obligation, Reason, Verdict
from gateway.domain.labels import Confidentiality, Integrity
from gateway.domain.tools import Disposition
from gateway.errors import PolicyUnavailable

_VERDICTS = {verdict.value: verdict for verdict in Verdict}
_DUTIES = {duty.value: duty for duty in Duty}
_MEMBERS = frozenset({"verdict", "reasons", "obligations"})
_REASON = frozenset({"code", "message"})
_INTEGRITIES = tuple(word.word for word in Integrity)
_CONFIDENTIALITIES = tuple(word.word for word in Confidentiality)


def read_decision(result: Any, *, id_: str, policy_digest: str) -> Decision:
    """Read the value of `data.douane.decision`.

    `verdict` and `reasons` are required; `obligations` may be left out. A deny without reasons is
    still a deny, and so is an ask: who gave no reason has not said yes.

    Raises:
        PolicyUnavailable: It is undefined, or in any way not of the agreed shape.

    """
    if type(result) is not dict or not result.keys() <= _MEMBERS:
        raise _unusable("not an object of verdict, reasons and obligations")
    verdict = result.get("verdict")
    if type(verdict) is not str or verdict not in _VERDICTS:
        raise _unusable("no verdict that we know")
    return Decision(
        id=id_,
        verdict=_VERDICTS[verdict],
        reasons=tuple(map(_reason, _list(result.get("reasons"), "reasons"))),
        obligations=tuple(map(_obligation, _list(result.get("obligations", []), "obligations"))),
        policy_digest=policy_digest,
    )


def read_disposition(result: Any) -> str:
    """Read the value of `data.douane.pin`: anything but an agreed word is `hold`."""
    words = Disposition.__members__.values()
    return result if type(result) is str and result in words else Disposition.HOLD.value


def read_pin_approvals(result: Any) -> int:
    """Read the value of `data.douane.pin_approvals`: how many people must approve.

    Raises:
        PolicyUnavailable: It is no whole number above zero.

    """
    if not _positive(result):
        raise _unusable("pin_approvals is not a whole number above zero")
    count: int = result
    return count


def read_self_approval(result: Any) -> bool:
    """Read the value of `data.douane.self_approval`: anything but `true` is a no."""
    return result is True


def _unusable(why: str) -> PolicyUnavailable:
    return PolicyUnavailable("policy gave no usable answer", detail=why)


def _list(found: Any, name: str) -> list[Any]:
    if type(found) is not list:
        raise _unusable(f"{name} is not a list")
    return found


def _reason(found: Any) -> Reason:
    if type(found) is not dict or found.keys() != _REASON:
        raise _unusable("a reason is not an object of code and message")
    code, message = found["code"], found["message"]
    if type(code) is not str or type(message) is not str or not code:
        raise _unusable("a reason's code or message is not a text")
    return Reason(code=code, message=message)


def _obligation(found: Any) -> Obligation:
    if type(found) is not dict:
        raise _unusable("an obligation is not an object")
    name = found.get("duty")
    duty = _DUTIES.get(name) if type(name) is str else None
    if duty is None:
        raise _unusable("an obligation that we do not know")
    detail = {key: member for key, member in found.items() if key != "duty"}
    if not _is_meant(duty, detail):
        raise _unusable(f"the members of {duty.value} are not the agreed ones")
    return Obligation(duty=duty, detail=detail)


def _is_meant(duty: Duty, detail: Mapping[str, Any]) -> bool:
    match duty:
        case Duty.REDACT:
            return _only(detail, "paths", "patterns") and all(map(_texts, detail.values()))
        case Duty.MASK | Duty.TOKENIZE | Duty.DROP | Duty.REQUIRE_STEP_UP:
            named = "scopes" if duty is Duty.REQUIRE_STEP_UP else "classes"
            return detail.keys() == {named} and _texts(detail[named])
        case Duty.TRUNCATE:
            return detail.keys() == {"bytes"} and _positive(detail["bytes"])
        case Duty.DROP_STRUCTURED:
            return not detail
        case Duty.RATE_LIMIT:
            return detail.keys() == {"calls_per_minute"} and _positive(detail["calls_per_minute"])
        case Duty.LABEL:
            return (
                _only(detail, "integrity", "confidentiality")
                and detail.get("integrity", "trusted") in _INTEGRITIES
                and detail.get("confidentiality", "public") in _CONFIDENTIALITIES
            )


def _only(detail: Mapping[str, Any], *names: str) -> bool:
    return bool(detail) and detail.keys() <= set(names)


def _texts(found: Any) -> bool:
    return (
        type(found) is list
        and bool(found)
        and all(type(text) is str and bool(text) for text in found)
    )


def _positive(found: Any) -> bool:
    return type(found) is int and found > 0
