"""What an AuthZEN decision point is asked, and what of its answer is one.

AuthZEN Authorization API 1.0, sections 5 and 6; its obligations profile.
"""

import re
from collections.abc import Mapping
from typing import Any, Final

from gateway.domain._value import value
from gateway.domain.decisions import Obligation
from gateway.domain.planes import DUTY
from gateway.errors import PolicyUnavailable
from gateway.policy.answer import read_decision
from gateway.policy.settings import DecisionPoint

_CODE: Final = re.compile(r"[A-Za-z0-9_.:-]{1,64}", re.ASCII)


@value
class Opinion:
    """What somebody else's decision point says of a call."""

    allowed: bool
    code: str = ""
    """Why, where it says so in one word; no sentence of somebody else's goes to callers."""
    obligations: tuple[Obligation, ...] = ()
    asks: bool = False
    """Its no is one that somebody there can be asked about."""
    unmet: bool = False
    """It allows it with an obligation that the gateway does not know: then that is no leave."""


def evaluation(asked: Mapping[str, Any], point: DecisionPoint) -> dict[str, Any]:
    """Return the evaluation of what policy is `asked`: who, what and where; more if `point` is to have it."""
    principal, target = asked["principal"], asked["target"]
    subject: dict[str, Any] = {"iss": principal["iss"]}
    if "groups" in point.send:
        subject["groups"] = principal["groups"]
    context: dict[str, Any] = {"agent": principal["client"]["id"]}
    if "arguments" in point.send:
        context["arguments"] = asked["arguments"]
    if "label" in point.send:
        context["label"] = asked["flow"]["label"]
    about = {"server": target["server"], "effect": target["effect"]}
    return {
        "subject": {"type": point.subject, "id": principal["sub"], "properties": subject},
        "action": {"name": asked["method"]},
        "resource": {"type": target["kind"], "id": target["name"], "properties": about},
        "context": context,
    }


def read_opinion(answer: Any) -> Opinion:
    """Return what `answer` says. Members that are not read here are ignored, as AuthZEN wants it.

    Raises:
        PolicyUnavailable: It says neither yes nor no.

    """
    if type(answer) is not dict or type(answer.get("decision")) is not bool:
        raise unusable("no decision that is true or false")
    context = answer.get("context", {})
    if type(context) is not dict:
        raise unusable("the context is no object")
    if not answer["decision"]:
        asks = type(context.get("access_request")) is dict
        return Opinion(allowed=False, code=_code(context.get("reason")), asks=asks)
    try:
        return Opinion(allowed=True, obligations=_obligations(context.get("obligations", [])))
    except PolicyUnavailable:
        return Opinion(allowed=False, unmet=True)


def unusable(why: str) -> PolicyUnavailable:
    return PolicyUnavailable("the decision point gave no usable answer", detail=why)


def _code(found: Any) -> str:
    return found if type(found) is str and _CODE.fullmatch(found) else ""


def _obligations(found: Any) -> tuple[Obligation, ...]:
    """Read obligations as duties of ours, by the rules that hold for a policy's.

    Raises:
        PolicyUnavailable: One is none that the gateway can meet.

    """
    if type(found) is not list:
        raise unusable("obligations are no list")
    told = {"verdict": "allow", "reasons": [], "obligations": list(map(_told, found))}
    return read_decision(told, id_="", policy_digest="").obligations


def _told(one: Any) -> dict[str, Any]:
    type_ = one.get("type") if type(one) is dict else None
    detail = one.get("properties", {}) if type(one) is dict else None
    if type(type_) is not str or not type_.startswith(DUTY) or type(detail) is not dict:
        raise unusable("an obligation that we do not know")
    return {**detail, "duty": type_.removeprefix(DUTY)}
