"""Questions and answers of the AuthZEN Authorization API 1.0, as JSON.

Members that are not read here are ignored, as its section on forward compatibility wants; one that is
read and is of another type spoils its question.
"""

from collections.abc import Mapping, Sequence
from dataclasses import field
from enum import StrEnum
from typing import Any, Final

from gateway.domain._value import value
from gateway.domain.decisions import Duty
from gateway.domain.planes import DUTY, REPLACE_RESULT
from gateway.errors import GatewayError, ProtocolError
from gateway.wire import jsontext
from gateway.wire.bounds import SURELY_WITHIN, within

REQUESTS: Final = "/access/v1/requests"
_TAKES_REQUESTS: Final = "urn:openid:authzen:capability:access-request"
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
    run: str | None = None
    """The handle of the run that it belongs to; nothing that is read says so."""
    approval: str | None = None
    """`context.approval`: the name of the yes that it goes by, if it names one."""
    said: Mapping[str, Any] = field(default_factory=dict, repr=False, compare=False)
    """Its members as they came."""


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
    members = dict(members_of(body, depth))
    resource = dict(_required(members, "resource"))
    if for_actions:
        members["action"] = {"name": _SEARCHED}
    else:
        resource["id"] = _SEARCHED
    page = object_in(members, "page")
    limit = page.get("limit", MOST_RESULTS)
    if type(limit) is not int or limit < 1:
        raise malformed("`limit` is no number of results")
    return Search(
        asked=evaluation_of({**members, "resource": resource}),
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
    return evaluation_of(members_of(body, depth))


def read_batch(body: bytes, depth: int, most: int) -> Batch:
    """Return the questions in `body` (section 7.1); no more than `most`.

    An item takes what it does not say from beside the array: each of its entities whole.

    Raises:
        ProtocolError: There are too many, or it is no batch at all; status 400.

    """
    members = members_of(body, depth)
    options = object_in(members, "options")
    try:
        semantic = Semantic(_text(options, "evaluations_semantic") or Semantic.ALL)
    except ValueError:
        raise malformed("`evaluations_semantic` is none of those that there are") from None
    items = members.get("evaluations")
    if items is None or items == []:
        return Batch(items=(evaluation_of(members),), semantic=semantic, single=True)
    if not isinstance(items, list):
        raise malformed("`evaluations` is no array")
    if len(items) > most:
        raise malformed(f"there are more than {most} evaluations")
    shared = {name: members[name] for name in _ENTITIES if name in members}
    return Batch(items=tuple(_item(shared, one) for one in items), semantic=semantic)


def _item(shared: Mapping[str, Any], one: Any) -> Evaluation | ProtocolError:
    try:
        if not isinstance(one, dict):
            raise malformed("an evaluation is no object")
        return evaluation_of({**shared, **one})
    except ProtocolError as error:
        return error


def members_of(body: bytes, depth: int) -> Mapping[str, Any]:
    """Return the members of the JSON object in `body`.

    Raises:
        ProtocolError: It is none.

    """
    try:
        members = jsontext.read_exact(body, depth)
    except ValueError as inexact:
        # What a server answered may have numbers that no call may have: of a report, that is a part.
        try:
            members = jsontext.read_lenient(body, depth)
        except ValueError as error:
            raise malformed(str(error)) from error
        if not isinstance(members, dict) or not _is_report(members):
            raise malformed(str(inexact)) from inexact
    if not isinstance(members, dict):
        raise malformed("the body is no JSON object")
    return members


def _is_report(members: Mapping[str, Any]) -> bool:
    context = members.get("context")
    return isinstance(context, dict) and context.get("phase") == Asks.RESULT


def evaluation_of(members: Mapping[str, Any]) -> Evaluation:
    """Return the question that `members` say.

    Raises:
        ProtocolError: They are none.

    """
    action, context = _required(members, "action"), object_in(members, "context")
    return Evaluation(
        subject=_entity(members, "subject"),
        action=named(action, "name"),
        resource=_entity(members, "resource"),
        action_properties=object_in(action, "properties"),
        arguments=object_in(context, "arguments") if "arguments" in context else None,
        agent=_text(context, "agent"),
        revision=_text(context, "protocol_version"),
        task=object_in(context, "task") if "task" in context else None,
        supported=_supported(context),
        reported=_reported(context),
        approval=named(object_in(context, "approval"), "id") if "approval" in context else None,
        said=members,
    )


def _reported(context: Mapping[str, Any]) -> Reported | None:
    phase = _text(context, "phase") or Asks.CALL
    if phase == Asks.CALL:
        return None
    if phase != Asks.RESULT:
        raise malformed("`phase` is neither `call` nor `result`")
    told = [name for name in ("result", "error") if name in context]
    if len(told) != 1:
        raise malformed("a report has either a `result` or an `error`")
    return Reported(
        decision=named(context, "decision_id"),
        member=told[0],
        content=object_in(context, told[0]),
    )


def _supported(context: Mapping[str, Any]) -> frozenset[str] | None:
    if "supported_obligations" not in context:
        return None
    found = context["supported_obligations"]
    if not isinstance(found, list) or not all(isinstance(one, str) for one in found):
        raise malformed("`supported_obligations` are no list of types")
    return frozenset(found)


def _entity(members: Mapping[str, Any], name: str) -> Entity:
    entity = _required(members, name)
    return Entity(
        type=named(entity, "type"),
        id=named(entity, "id"),
        properties=object_in(entity, "properties"),
    )


def _required(members: Mapping[str, Any], name: str) -> Mapping[str, Any]:
    if name not in members:
        raise malformed(f"`{name}` is missing")
    return object_in(members, name)


def object_in(members: Mapping[str, Any], name: str) -> Mapping[str, Any]:
    """Return the object of that name; an empty one if there is nothing.

    Raises:
        ProtocolError: It is something else.

    """
    if name not in members:
        return _NOTHING
    found: Any = members[name]
    if not isinstance(found, dict):
        raise malformed(f"`{name}` is no object")
    return found


def named(members: Mapping[str, Any], name: str) -> str:
    """Return the text of that name.

    Raises:
        ProtocolError: There is none, or it is something else, or too long.

    """
    found = _text(members, name)
    if not found:
        raise malformed(f"`{name}` is missing or empty")
    return found


def _text(members: Mapping[str, Any], name: str) -> str:
    found = members.get(name, "")
    if type(found) is str and len(found) <= SURELY_WITHIN:
        return found
    if not isinstance(found, str):
        raise malformed(f"`{name}` is no string")
    if not within(found):
        raise malformed(f"`{name}` is too long")
    return found


def malformed(why: str) -> ProtocolError:
    """Return the refusal of what is no question."""
    return ProtocolError(f"this is no question: {why}")


def write_answer(answer: Answer) -> bytes:
    """Return `answer` as JSON."""
    return jsontext.write_octets(_told(answer))


def write_answers(answers: Sequence[Answer]) -> bytes:
    """Return the answers to a batch as JSON, in their order (section 7.2)."""
    return jsontext.write_octets({"evaluations": [_told(one) for one in answers]})


def spoiled(error: GatewayError, status: int) -> Answer:
    """Return the answer to an item of a batch that cannot be answered (section 7.2.1)."""
    told = {"status": status, "message": error.public}
    return Answer(decision=False, context={"error": told})


def metadata(public_url: str, jwks_uri: str = "") -> Mapping[str, Any]:
    """Return the document of `/.well-known/authzen-configuration` (section 9.1).

    With a `jwks_uri` requests for access are taken, and what binds them is signed with its keys.
    """
    requests = {
        "access_request_endpoint": f"{public_url}{REQUESTS}",
        "jwks_uri": jwks_uri,
        "capabilities": [_TAKES_REQUESTS],
    }
    return {
        **(requests if jwks_uri else {}),
        "policy_decision_point": public_url,
        "access_evaluation_endpoint": f"{public_url}/access/v1/evaluation",
        "access_evaluations_endpoint": f"{public_url}/access/v1/evaluations",
        "search_resource_endpoint": f"{public_url}/access/v1/search/resource",
        "search_action_endpoint": f"{public_url}/access/v1/search/action",
        "supported_obligations": [f"{DUTY}{REPLACE_RESULT}", f"{DUTY}{Duty.REQUIRE_STEP_UP.value}"],
    }


def _told(answer: Answer) -> Mapping[str, Any]:
    return {"decision": answer.decision, "context": answer.context}
