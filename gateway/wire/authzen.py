"""Questions and answers of the AuthZEN Authorization API 1.0, as JSON.

Members that are not read here are ignored, as its section on forward compatibility wants; one that is
read and is of another type spoils its question.
"""

from collections.abc import Mapping, Sequence
from enum import StrEnum
from typing import Any, Final

from gateway.domain._value import value
from gateway.domain.decisions import Duty
from gateway.domain.planes import DUTY, REPLACE_RESULT
from gateway.errors import GatewayError, ProtocolError
from gateway.wire import jsontext
from gateway.wire.bounds import within

_NOTHING: Final[Mapping[str, Any]] = {}
MOST_RESULTS: Final = 100
"""Of one page of a search."""
_SEARCHED: Final = "*"
_ENTITIES: Final = ("subject", "action", "resource", "context")


class Asks(StrEnum):
    """What a question is about."""

    CALL = "call"
    """May this be done?"""
    RESULT = "result"
    """It was done, and this came of it: may that be given out?"""


class Semantic(StrEnum):
    """How far the items of a batch are evaluated (section 7.1.2.1)."""

    ALL = "execute_all"
    TO_FIRST_DENY = "deny_on_first_deny"
    TO_FIRST_PERMIT = "permit_on_first_permit"


@value
class Entity:
    """A subject or a resource (sections 5.1 and 5.2)."""

    type: str
    id: str
    properties: Mapping[str, Any]


@value
class Reported:
    """What came of an allowed call, as its plane says."""

    decision: str
    member: str
    """`result`, or `error` where the server answered with one."""
    content: Mapping[str, Any]


@value
class Evaluation:
    """One question."""

    subject: Entity
    action: str
    resource: Entity
    action_properties: Mapping[str, Any]
    arguments: Mapping[str, Any] | None = None
    """`context.arguments`, an MCP call's; `None` if they are not told."""
    agent: str = ""
    """`context.agent`: the client that acts for the subject."""
    revision: str = ""
    """`context.protocol_version`: of MCP."""
    task: Mapping[str, Any] | None = None
    """`context.task`: what its host declares of its user's task."""
    supported: frozenset[str] | None = None
    """`context.supported_obligations`: the types that it meets; `None` if it does not say."""
    reported: Reported | None = None
    """What it tells in phase `result`."""


@value
class Batch:
    """Questions that came together, or why one of them is none."""

    items: tuple[Evaluation | ProtocolError, ...]
    semantic: Semantic
    single: bool = False
    """Whether there was no array of them, so that the one answer is no array either."""


@value
class Answer:
    """What a question is answered with (section 6.2)."""

    decision: bool
    context: Mapping[str, Any]


@value
class Search:
    """A question which resources there are for an action (section 8.5), or which actions for one (8.6)."""

    asked: Evaluation
    """Without an `id` where resources are searched, and without an action where actions are."""
    limit: int
    after: str
    """Where the page before ended, as its answer said."""


def read_search(body: bytes, depth: int, *, for_actions: bool) -> Search:
    """Return the search in `body`. What is searched for is named by nobody, and ignored if it is.

    Raises:
        ProtocolError: It is none; status 400.

    """
    members = dict(_members(body, depth))
    resource = dict(_required(members, "resource"))
    if for_actions:
        members["action"] = {"name": _SEARCHED}
    else:
        resource["id"] = _SEARCHED
    page = _object(members, "page")
    limit = page.get("limit", MOST_RESULTS)
    if type(limit) is not int or limit < 1:
        raise _malformed("`limit` is no number of results")
    return Search(
        asked=_evaluation({**members, "resource": resource}),
        limit=min(limit, MOST_RESULTS),
        after=_text(page, "token"),
    )


def write_results(results: Sequence[Mapping[str, str]], next_token: str, total: int) -> bytes:
    """Return one page of what a search found, as JSON."""
    page = {"next_token": next_token, "count": len(results), "total": total}
    return jsontext.write({"results": results, "page": page}).encode()


def read_evaluation(body: bytes, depth: int) -> Evaluation:
    """Return the question in `body`.

    Raises:
        ProtocolError: It is none; status 400.

    """
    return _evaluation(_members(body, depth))


def read_batch(body: bytes, depth: int, most: int) -> Batch:
    """Return the questions in `body` (section 7.1); no more than `most`.

    An item takes what it does not say from beside the array: each of its entities whole.

    Raises:
        ProtocolError: There are too many, or it is no batch at all; status 400.

    """
    members = _members(body, depth)
    options = _object(members, "options")
    try:
        semantic = Semantic(_text(options, "evaluations_semantic") or Semantic.ALL)
    except ValueError:
        raise _malformed("`evaluations_semantic` is none of those that there are") from None
    items = members.get("evaluations")
    if items is None or items == []:
        return Batch(items=(_evaluation(members),), semantic=semantic, single=True)
    if not isinstance(items, list):
        raise _malformed("`evaluations` is no array")
    if len(items) > most:
        raise _malformed(f"there are more than {most} evaluations")
    shared = {name: members[name] for name in _ENTITIES if name in members}
    return Batch(items=tuple(_item(shared, one) for one in items), semantic=semantic)


def _item(shared: Mapping[str, Any], one: Any) -> Evaluation | ProtocolError:
    try:
        if not isinstance(one, dict):
            raise _malformed("an evaluation is no object")
        return _evaluation({**shared, **one})
    except ProtocolError as error:
        return error


def _members(body: bytes, depth: int) -> Mapping[str, Any]:
    try:
        members = jsontext.read_exact(body, depth)
    except ValueError as inexact:
        # What a server answered may have numbers that no call may have: of a report, that is a part.
        try:
            members = jsontext.read_lenient(body, depth)
        except ValueError as error:
            raise _malformed(str(error)) from error
        if not isinstance(members, dict) or not _is_report(members):
            raise _malformed(str(inexact)) from inexact
    if not isinstance(members, dict):
        raise _malformed("the body is no JSON object")
    return members


def _is_report(members: Mapping[str, Any]) -> bool:
    context = members.get("context")
    return isinstance(context, dict) and context.get("phase") == Asks.RESULT


def _evaluation(members: Mapping[str, Any]) -> Evaluation:
    action, context = _required(members, "action"), _object(members, "context")
    return Evaluation(
        subject=_entity(members, "subject"),
        action=_named(action, "name"),
        resource=_entity(members, "resource"),
        action_properties=_object(action, "properties"),
        arguments=_object(context, "arguments") if "arguments" in context else None,
        agent=_text(context, "agent"),
        revision=_text(context, "protocol_version"),
        task=_object(context, "task") if "task" in context else None,
        supported=_supported(context),
        reported=_reported(context),
    )


def _reported(context: Mapping[str, Any]) -> Reported | None:
    phase = _text(context, "phase") or Asks.CALL
    if phase == Asks.CALL:
        return None
    if phase != Asks.RESULT:
        raise _malformed("`phase` is neither `call` nor `result`")
    told = [name for name in ("result", "error") if name in context]
    if len(told) != 1:
        raise _malformed("a report has either a `result` or an `error`")
    return Reported(
        decision=_named(context, "decision_id"),
        member=told[0],
        content=_object(context, told[0]),
    )


def _supported(context: Mapping[str, Any]) -> frozenset[str] | None:
    if "supported_obligations" not in context:
        return None
    found = context["supported_obligations"]
    if not isinstance(found, list) or not all(isinstance(one, str) for one in found):
        raise _malformed("`supported_obligations` are no list of types")
    return frozenset(found)


def _entity(members: Mapping[str, Any], name: str) -> Entity:
    entity = _required(members, name)
    return Entity(
        type=_named(entity, "type"),
        id=_named(entity, "id"),
        properties=_object(entity, "properties"),
    )


def _required(members: Mapping[str, Any], name: str) -> Mapping[str, Any]:
    if name not in members:
        raise _malformed(f"`{name}` is missing")
    return _object(members, name)


def _object(members: Mapping[str, Any], name: str) -> Mapping[str, Any]:
    if name not in members:
        return _NOTHING
    found: Any = members[name]
    if not isinstance(found, dict):
        raise _malformed(f"`{name}` is no object")
    return found


def _named(members: Mapping[str, Any], name: str) -> str:
    found = _text(members, name)
    if not found:
        raise _malformed(f"`{name}` is missing or empty")
    return found


def _text(members: Mapping[str, Any], name: str) -> str:
    found = members.get(name, "")
    if not isinstance(found, str):
        raise _malformed(f"`{name}` is no string")
    if not within(found):
        raise _malformed(f"`{name}` is too long")
    return found


def _malformed(why: str) -> ProtocolError:
    return ProtocolError(f"this is no question: {why}")


def write_answer(answer: Answer) -> bytes:
    """Return `answer` as JSON."""
    return jsontext.write(_told(answer)).encode()


def write_answers(answers: Sequence[Answer]) -> bytes:
    """Return the answers to a batch as JSON, in their order (section 7.2)."""
    return jsontext.write({"evaluations": [_told(one) for one in answers]}).encode()


def spoiled(error: GatewayError, status: int) -> Answer:
    """Return the answer to an item of a batch that cannot be answered (section 7.2.1)."""
    told = {"status": status, "message": error.public}
    return Answer(decision=False, context={"error": told})


def metadata(public_url: str) -> Mapping[str, Any]:
    """Return the document of `/.well-known/authzen-configuration` (section 9.1)."""
    return {
        "policy_decision_point": public_url,
        "access_evaluation_endpoint": f"{public_url}/access/v1/evaluation",
        "access_evaluations_endpoint": f"{public_url}/access/v1/evaluations",
        "search_resource_endpoint": f"{public_url}/access/v1/search/resource",
        "search_action_endpoint": f"{public_url}/access/v1/search/action",
        "supported_obligations": [f"{DUTY}{REPLACE_RESULT}", f"{DUTY}{Duty.REQUIRE_STEP_UP.value}"],
    }


def _told(answer: Answer) -> Mapping[str, Any]:
    return {"decision": answer.decision, "context": answer.context}
