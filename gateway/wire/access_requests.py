"""Requests for access as JSON: submissions, tasks and problems (AuthZEN, Access Request and Approval Profile)."""

import base64
import hashlib
from collections.abc import Mapping
from dataclasses import field
from datetime import UTC, datetime
from enum import StrEnum
from typing import Any, Final

from gateway.domain._value import value
from gateway.domain.access_requests import CONTEXT
from gateway.domain.document import Digest, canonical
from gateway.errors import AccessRequestRefused, GatewayError
from gateway.wire import jsontext
from gateway.wire.authzen import (
    Evaluation,
    evaluation_of,
    malformed,
    members_of,
    named,
    object_in,
)

_ERROR: Final = "urn:openid:authzen:access-request:error:"
_LONGEST_TOKEN: Final = 8192


class Status(StrEnum):
    """How far a request for access is; what is not `pending` changes no more."""

    PENDING = "pending"
    APPROVED = "approved"
    DENIED = "denied"
    EXPIRED = "expired"
    CANCELLED = "cancelled"


@value
class Submission:
    """A refusal that comes back, so that a person is asked."""

    asked: Evaluation
    """What was refused, as it is said now."""
    said: str
    """The `binding_hash` of that."""
    token: str = field(repr=False)
    """The refusal's `binding_token`."""
    evaluation: str
    """What it was called; empty if that is not said."""
    expires_at: float
    body: Digest
    """Of all of it in canonical form: what is submitted again is the same if this is."""


@value
class Task:
    """What a submission is answered with, and whoever looks at it later."""

    id: str
    status: Status
    expires_at: float
    """Until when the question waits, or its answer is to be had."""
    approved_at: float | None = None
    ticket: str = ""
    """The page where the person whose call it is can answer it; empty if they cannot."""


def read_submission(body: bytes, depth: int) -> Submission:
    """Return the submission in `body`.

    Raises:
        AccessRequestRefused: Nothing in it says which refusal it is about, or it is about several.
        ProtocolError: It is none; status 400.

    """
    members = members_of(body, depth)
    if "items" in members:
        raise AccessRequestRefused.invalid_denial_binding("one request is about one refusal")
    if "callback" in members:
        raise malformed("nobody is called back; look at the task")
    asked = evaluation_of(members)
    if asked.reported is not None:
        raise malformed("a result is no request for access")
    _require_same_actor(object_in(members, "client"), asked)
    object_in(members, "requested_access")
    denial = object_in(members, "denial")
    token = denial.get("binding_token")
    if not isinstance(token, str) or not 0 < len(token) <= _LONGEST_TOKEN:
        raise AccessRequestRefused.invalid_denial_binding("its `binding_token` is missing")
    return Submission(
        asked=asked,
        said=bound(asked),
        token=token,
        evaluation=named(denial, "evaluation_id") if "evaluation_id" in denial else "",
        expires_at=_time(named(denial, "expires_at")),
        body=Digest.of(canonical(members)),
    )


def _require_same_actor(client: Mapping[str, Any], asked: Evaluation) -> None:
    """Return if nobody else is said to act than the question says: no other claim can be verified.

    Raises:
        ProtocolError: Somebody else is.

    """
    actor = object_in(client, "actor")
    if not actor:
        return
    if not asked.agent or named(actor, "id") != asked.agent or "act" in actor:
        raise malformed("`client.actor` is not who acts in `context.agent`")


def _time(text: str) -> float:
    try:
        told = datetime.fromisoformat(text)
    except ValueError:
        raise malformed("`expires_at` is no time") from None
    if told.tzinfo is None:
        raise malformed("`expires_at` is no time of a zone")
    return told.timestamp()


def bound(asked: Evaluation) -> str:
    """Return the `binding_hash` of what is asked: of who, what and the context that decides."""
    subject = dict(object_in(asked.said, "subject"))
    properties = {**object_in(subject, "properties")}
    # A plane may tell the actor elsewhere when it submits (section "Delegation").
    if "act" in properties:
        del properties["act"]
        subject["properties"] = properties
    context = object_in(asked.said, "context")
    content = {
        "subject": subject,
        "resource": asked.said.get("resource"),
        "action": asked.said.get("action"),
        "context": {name: context[name] for name in CONTEXT if name in context},
    }
    digest = hashlib.sha256(canonical(content)).digest()
    return base64.urlsafe_b64encode(digest).rstrip(b"=").decode()


def moment(seconds: float) -> str:
    """Return a time as RFC 3339 has it."""
    return datetime.fromtimestamp(int(seconds), UTC).isoformat().replace("+00:00", "Z")


def approval_of(task: Task) -> Mapping[str, Any]:
    """Return what an approved task's plane asks again with."""
    at = {} if task.approved_at is None else {"approved_at": moment(task.approved_at)}
    return {"id": task.id, **at, "approved_until": moment(task.expires_at)}


def write_task(task: Task, endpoint: str) -> bytes:
    """Return the response that tells of a task of those at `endpoint`."""
    here = f"{endpoint}/{task.id}"
    links = {
        **({"ticket": task.ticket} if task.ticket else {}),
        **({"cancel": f"{here}/cancel"} if task.status is Status.PENDING else {}),
    }
    told: dict[str, Any] = {
        "id": task.id,
        "status": task.status.value,
        "status_endpoint": here,
        "expires_at": moment(task.expires_at),
    }
    content: dict[str, Any] = {"task": {**told, **({"links": links} if links else {})}}
    if task.status is Status.APPROVED:
        content["result"] = {"mode": "reevaluate", "approval": approval_of(task)}
    return jsontext.write(content).encode()


def write_problem(error: GatewayError, status: int) -> bytes:
    """Return the problem document of a refusal (RFC 9457)."""
    kind = f"{_ERROR}{error.problem}" if isinstance(error, AccessRequestRefused) else "about:blank"
    content = {"type": kind, "title": error.public, "status": status}
    return jsontext.write(content).encode()
