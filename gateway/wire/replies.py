"""What a refusal looks like on the wire."""

from collections.abc import Mapping
from http import HTTPStatus
from types import MappingProxyType
from typing import Any, Final

from gateway.domain._value import value
from gateway.domain.calls import Form, Message, Reply, ServerEvent
from gateway.domain.tools import Profile
from gateway.errors import (
    ApprovalRequired,
    CredentialRequired,
    DescriptionRequired,
    GatewayError,
    IdentityUnavailable,
    InsufficientScope,
    InvalidArguments,
    ProofRefused,
    ProtocolError,
    RateLimited,
    ReadBefore,
    Unauthenticated,
    UpstreamResting,
)
from gateway.wire import jsontext
from gateway.wire.elicitation import (
    NO_WAYS,
    URL_REQUIRED,
    Ways,
    form_result,
    url_error,
    url_result,
)
from gateway.wire.inbound import CONTENT_TYPE
from gateway.wire.jsonrpc import INTERNAL_ERROR
from gateway.wire.server_message import ServerMessage
from gateway.wire.sse import data_event

REFUSAL_KEY = "douane/refusal"

_TOOLS_CALL = "tools/call"


RETRY_S: Final = 5
"""Seconds after which something that could not be said may be asked again."""


@value
class Told:
    """How one code is told: to HTTP, to JSON-RPC, and to the model."""

    status: int
    """HTTP status where no JSON-RPC answer can carry the refusal: notifications, GET, DELETE."""
    rpc_code: int
    """Positive: the protocol keeps the negative ones for itself (2026-07-28, error codes)."""
    advice: str
    """What an agent can do about it."""


# No status is 404: a client of a session would take it for the session's end.
# fmt: off
CODES: Mapping[str, Told] = MappingProxyType(
    {
        "denied": Told(status=403, rpc_code=40301, advice="Do not retry the same call. Go on without it, or ask the user."),
        "approval_required": Told(status=403, rpc_code=40302, advice="Do not retry the same call. Tell the user that a person has to allow it first."),
        "policy_stopped": Told(status=403, rpc_code=40304, advice="Do not retry. Tell the user: calls go on once an operator lets them."),
        "description_required": Told(status=403, rpc_code=40321, advice="Read the tool's description, then call it again."),
        "insufficient_scope": Told(status=403, rpc_code=40303, advice="Ask the user to grant the missing scopes."),
        "pin_pending": Told(status=403, rpc_code=40311, advice="A person must approve this definition first. Tell the user; do not retry."),
        "pin_drift": Told(status=403, rpc_code=40312, advice="The definition changed after its approval, and a person must look at it again. Tell the user; do not retry."),
        "pin_revoked": Told(status=403, rpc_code=40313, advice="A person withdrew the approval. Tell the user; do not retry."),
        "unknown_tool": Told(status=403, rpc_code=40401, advice="List what is available and use a name from there."),
        "unauthenticated": Told(status=401, rpc_code=40101, advice="The user has to sign in."),
        "credential_required": Told(status=403, rpc_code=40102, advice="An account at this server has to be connected first. Tell the user; do not retry before."),
        "rate_limited": Told(status=429, rpc_code=42901, advice="Wait before the next call; if that is long, go on without it and tell the user."),
        "limit_exceeded": Told(status=413, rpc_code=41301, advice="Ask for less at once: fewer items, a narrower query, a page at a time."),
        "policy_unavailable": Told(status=503, rpc_code=50301, advice="Nothing was called. Retry later."),
        "audit_unavailable": Told(status=503, rpc_code=50302, advice="The call could not be recorded. Check whether it took effect before a retry."),
        "state_changed": Told(status=503, rpc_code=50304, advice="Nothing was called. Retry in a moment."),
        "identity_unavailable": Told(status=503, rpc_code=50303, advice="Nothing was called. Retry later; the user need not sign in again."),
        "upstream_failed": Told(status=502, rpc_code=50201, advice="Check whether the call took effect before you retry it."),
    }
)
# fmt: on
_AT_THE_DOOR = (Unauthenticated, InsufficientScope, IdentityUnavailable)
"""What is told to HTTP, whatever was asked: clients sign in anew on a 401, and wait on a 503."""

_READ_AGAIN = "Nothing was called. Look at the tool again with get_tool_details, then call it so."
"""What helps is not a person but another look."""
_MEND = "Nothing was called. Correct the arguments, and call it again."
_NOT_SENT = "Nothing was called. Go on without it, or call it again by then."

_UNFORESEEN = Told(status=500, rpc_code=INTERNAL_ERROR, advice="Do not retry the same call.")


@value
class Challenge:
    """What a 401 or 403 tells a client about getting a token (RFC 6750 section 3, RFC 9728)."""

    resource_metadata: str
    """URL of the endpoint's protected resource metadata."""
    scopes: tuple[str, ...]
    """What to ask for at sign-in; a refusal for lack of scope names its own."""
    token_sent: bool
    """Whether the request carried one; only then is there something to call invalid."""
    proofs: tuple[str, ...] = ()
    """With what a proof for a bound token may be signed (RFC 9449 section 7.1); none are taken
    without."""
    proven: bool = False
    """Whether the token came with a proof, hence by that scheme."""


def refuse(
    error: GatewayError,
    message: Message | None,
    profile: Profile,
    challenge: Challenge,
    *,
    decision_id: str | None = None,
    ways: Ways = NO_WAYS,
) -> Reply:
    """Return the whole answer to a refused request; `message` is `None` before it was parsed.

    When to come back is said in `Retry-After` where the refusal is an HTTP 429 or 503 (RFC 9110
    section 10.2.3), and which limit was met wherever there is one. `ways` are those in which the client can
    be asked now to ask its user.
    """
    status = _status(error, message)
    headers = [CONTENT_TYPE]
    if isinstance(error, Unauthenticated | InsufficientScope):
        headers += [("www-authenticate", line) for line in _challenges(error, challenge)]
    if isinstance(error, RateLimited):
        headers += _limits(error)
        if status == HTTPStatus.TOO_MANY_REQUESTS and error.wait_s:
            headers.append(("retry-after", str(error.wait_s)))
    if status == HTTPStatus.SERVICE_UNAVAILABLE:
        headers.append(("retry-after", str(RETRY_S)))
    if status == HTTPStatus.METHOD_NOT_ALLOWED:
        headers.append(("allow", "POST"))  # RFC 9110 section 15.5.6
    body = refusal_body(error, message, profile, decision_id=decision_id, ways=ways)
    return Reply(status=status, headers=tuple(headers), body=body, code=error.code)


def refusal_body(
    error: GatewayError,
    message: Message | None,
    profile: Profile,
    *,
    decision_id: str | None = None,
    ways: Ways = NO_WAYS,
) -> bytes:
    """Return the JSON-RPC message that answers `message` with a no.

    Where the client's user could help, and can be asked in one of `ways`, it asks for that. A refused
    tools/call is a tool result, for that is what reaches the model; anything else is an error. What has no id to answer (notifications, responses, GET, DELETE) gets an error without.
    """
    asked = message if message is not None and message.form is Form.REQUEST else None
    rpc_id = asked.id if asked is not None else None
    if isinstance(error, ProtocolError):
        known = rpc_id if error.rpc_id is None else error.rpc_id
        return _error(known, error.rpc_code, error.public, error.data)
    refusal = _refusal(error, decision_id)
    if asked is not None and isinstance(error, CredentialRequired | ApprovalRequired):
        if ways.url and error.url:
            return _asks_for_url(rpc_id, error, refusal, profile)
        if ways.form and isinstance(error, ApprovalRequired) and error.state:
            return _asks(rpc_id, form_result(error), refusal)
    at_the_door = isinstance(error, _AT_THE_DOOR)
    if asked is not None and asked.method == _TOOLS_CALL and not at_the_door:
        told = error.told if isinstance(error, DescriptionRequired) else None
        return _tool_result(rpc_id, _text(error), refusal, profile, told)
    return _error(rpc_id, _told(error).rpc_code, error.public, refusal)


def refusal_event(
    error: GatewayError, message: Message, profile: Profile, *, decision_id: str | None = None
) -> ServerEvent:
    """Return `refusal_body` as the last event of a stream that has already begun."""
    return data_event(refusal_body(error, message, profile, decision_id=decision_id))


def reject(request: ServerMessage, error: GatewayError, *, decision_id: str | None = None) -> bytes:
    """Return the error that answers a server's `request` in the client's place.

    The server learns the code alone: reasons are for those who may change something.
    """
    refusal: dict[str, Any] = {
        "code": error.code,
        "decision_id": decision_id,
        "reasons": [],
    }
    return _error(request.id, _told(error).rpc_code, error.public, refusal)


def _status(error: GatewayError, message: Message | None) -> int:
    if isinstance(error, ProtocolError):
        return error.status
    if isinstance(error, _AT_THE_DOOR):
        return _told(error).status
    if message is not None and message.form is Form.REQUEST:
        return HTTPStatus.OK
    return _told(error).status


def _told(error: GatewayError) -> Told:
    return CODES.get(error.code, _UNFORESEEN)


def _refusal(error: GatewayError, decision_id: str | None) -> dict[str, Any]:
    reasons = [{"code": code, "message": message} for code, message in error.reasons]
    refusal: dict[str, Any] = {
        "code": error.code,
        "decision_id": decision_id,
        "reasons": reasons,
    }
    if isinstance(error, CredentialRequired | ApprovalRequired) and error.url:
        refusal["url"] = error.url
    if isinstance(error, RateLimited) and error.wait_s:
        refusal["retry_after_s"] = error.wait_s
    if isinstance(error, ApprovalRequired) and error.approval_id:
        refusal["approval_id"] = error.approval_id
        if error.page:
            refusal["approval_url"] = error.page
    return refusal


def _text(error: GatewayError) -> str:
    if isinstance(error, DescriptionRequired):
        return jsontext.write(error.told)
    reasons = [message for _, message in error.reasons]
    if isinstance(error, CredentialRequired | ApprovalRequired) and error.url:
        reasons.append(f"Open {error.url} in a browser.")
    sentences = (error.public, *reasons, _advice(error))
    return " ".join(text if text.endswith((".", "!", "?")) else f"{text}." for text in sentences)


def _advice(error: GatewayError) -> str:
    match error:
        case ReadBefore():
            return _READ_AGAIN
        case InvalidArguments():
            return _MEND
        case UpstreamResting():
            return _NOT_SENT
        case _:
            return _told(error).advice


def _asks_for_url(
    rpc_id: str | int | None,
    error: CredentialRequired | ApprovalRequired,
    refusal: Mapping[str, Any],
    profile: Profile,
) -> bytes:
    if profile is Profile.LEGACY:
        # The decision's id is nobody else's, and tells nothing.
        data = {**refusal, **url_error(error, str(refusal["decision_id"]))}
        return _error(rpc_id, URL_REQUIRED, error.public, data)
    return _asks(rpc_id, url_result(error), refusal)


def _asks(rpc_id: str | int | None, asking: Mapping[str, Any], refusal: Mapping[str, Any]) -> bytes:
    result = {**asking, "_meta": {REFUSAL_KEY: refusal}}
    return jsontext.write({"jsonrpc": "2.0", "id": rpc_id, "result": result}).encode()


def _tool_result(
    rpc_id: str | int | None,
    text: str,
    refusal: Mapping[str, Any],
    profile: Profile,
    structured: Mapping[str, object] | None,
) -> bytes:
    result: dict[str, Any] = {
        "content": [{"type": "text", "text": text}],
        "isError": True,
        "_meta": {REFUSAL_KEY: refusal},
    }
    if structured is not None:
        result["structuredContent"] = structured
    if profile is Profile.MODERN:
        result["resultType"] = "complete"  # required since 2026-07-28
    return jsontext.write({"jsonrpc": "2.0", "id": rpc_id, "result": result}).encode()


def _error(
    rpc_id: str | int | None, code: int, public: str, data: Mapping[str, object] | None
) -> bytes:
    error: dict[str, Any] = {"code": code, "message": public}
    if data is not None:
        error["data"] = data
    return jsontext.write({"jsonrpc": "2.0", "id": rpc_id, "error": error}).encode()


def _limits(error: RateLimited) -> list[tuple[str, str]]:
    """Return the header fields of draft-ietf-httpapi-ratelimit-headers-10: structured lists."""
    if not error.limits:
        return []
    policies, left = [], []
    for limit in error.limits:
        unit = "" if limit.unit == "requests" else f';qu="{limit.unit}"'
        span = "" if limit.span_s is None else f";w={limit.span_s}"
        policies.append(f'"{limit.name}";q={limit.most}{unit}{span}')
        left.append(f'"{limit.name}";r={limit.left};t={limit.wait_s}')
    return [("ratelimit-policy", ", ".join(policies)), ("ratelimit", ", ".join(left))]


def _challenges(
    error: Unauthenticated | InsufficientScope, challenge: Challenge
) -> tuple[str, ...]:
    """Return a challenge for each scheme; what is wrong stands in that which was used.

    The usual one is first: there are clients that look at nothing else.
    """
    scopes = error.scopes if isinstance(error, InsufficientScope) else challenge.scopes
    said = {"scope": " ".join(scopes)} if scopes else {}
    said["resource_metadata"] = challenge.resource_metadata
    wrong = _wrong(error, challenge)
    proven = challenge.proven or isinstance(error, ProofRefused)
    bearer = _challenge("Bearer", {**({} if proven else wrong), **said})
    if not challenge.proofs:
        return (bearer,)
    algorithms = {"algs": " ".join(challenge.proofs)}
    return bearer, _challenge("DPoP", {**(wrong if proven else {}), **algorithms, **said})


def _wrong(error: Unauthenticated | InsufficientScope, challenge: Challenge) -> dict[str, str]:
    if isinstance(error, InsufficientScope):
        return {"error": "insufficient_scope"}
    if isinstance(error, ProofRefused):
        return {"error": "invalid_dpop_proof"}
    # RFC 6750 section 3.1: without a token there is no error to speak of.
    return {"error": "invalid_token"} if challenge.token_sent else {}


def _challenge(scheme: str, said: Mapping[str, str]) -> str:
    return f"{scheme} " + ", ".join(f"{name}={_quoted(text)}" for name, text in said.items())


def _quoted(text: str) -> str:
    escaped = text.replace("\\", "\\\\").replace('"', '\\"')
    return f'"{escaped}"'
