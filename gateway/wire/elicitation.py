"""Asking a client to ask its user: to open a URL of ours, or to answer a form of ours.

Revision 2025-11-25 has an error that sends a user to a URL (URL mode elicitation), 2026-07-28 a
result that asks for input, a URL or a form; earlier ones have nothing. Where a client did not say
that it can do this, the URL stands in the refusal's text.
"""

import hmac
from collections.abc import Mapping
from typing import Any, Final

from gateway.domain._value import value
from gateway.domain.calls import Answered, Call, Message
from gateway.domain.tools import Profile
from gateway.errors import ApprovalRequired, CredentialRequired
from gateway.wire.extensions import with_params
from gateway.wire.inbound import MODERN_CAPABILITIES_KEY, meta_of
from gateway.wire.session import mac, says_url

URL_REQUIRED: Final = -32042
"""2025-11-25, client features, elicitation: URLElicitationRequiredError."""

_SINCE: Final = "2025-11-25"
_ASKS: Final = frozenset({"tools/call", "prompts/get", "resources/read"})
"""Methods whose result may ask for input (2026-07-28, multi round-trip requests)."""
_CONNECT_KEY: Final = "douane-connect"
_APPROVAL_KEY: Final = "douane-approval"
_OUR_KEYS: Final = frozenset({_CONNECT_KEY, _APPROVAL_KEY})
_OUR_STATE: Final = "douane-approval."
_PURPOSE: Final = "approval state"
"""No server's name has a space in it, so no seal of a session is one of these."""
_RESPONSES: Final = "inputResponses"
_STATE: Final = "requestState"
_APPROVE: Final = "approve"


@value
class Ways:
    """In which ways a client can be asked now to ask its user."""

    url: bool = False
    form: bool = False


NO_WAYS: Final = Ways()


def declares_url(call: Call) -> bool:
    """Whether the client said that it can send its user to a URL, now or when its session began."""
    message = call.message
    if call.profile is Profile.MODERN:
        return isinstance(_elicitation(message).get("url"), dict)
    if message.method == "initialize":
        return isinstance(_member(message.params, "capabilities", "elicitation").get("url"), dict)
    return call.session is not None and says_url(call.session)


def ways_to_ask(call: Call) -> Ways:
    """Return how the answer to `call` may ask its client to ask the user.

    In the stateless revision only once: a client that was asked already comes back at once, perhaps
    before its user is done, and would be asked for ever.
    """
    if call.script is not None:
        return NO_WAYS  # a program has no user to ask; whoever runs it waits for the answer
    if call.profile is Profile.LEGACY:
        return Ways(url=declares_url(call) and call.revision == _SINCE)
    message = call.message
    asked_before = call.answered is not None or not message.params.keys().isdisjoint(
        {_RESPONSES, _STATE}
    )
    if asked_before or message.method not in _ASKS:
        return NO_WAYS
    return Ways(url=declares_url(call), form=_declares_form(message))


def url_error(
    error: CredentialRequired | ApprovalRequired, elicitation_id: str
) -> Mapping[str, Any]:
    """Return the `data` of the error that asks a client of a session."""
    return {"elicitations": [{**_params(error), "elicitationId": elicitation_id}]}


def url_result(error: CredentialRequired | ApprovalRequired) -> Mapping[str, Any]:
    """Return the result that asks a client of the stateless revision."""
    key = _APPROVAL_KEY if isinstance(error, ApprovalRequired) else _CONNECT_KEY
    return _input_required(key, _params(error))


def form_result(error: ApprovalRequired) -> Mapping[str, Any]:
    """Return the result that asks the user of a client of the stateless revision for a yes or a no.

    Its `requestState` is what `answer_in` finds again.
    """
    approve = {"type": "boolean", "title": "Let this call go out, once", "default": False}
    schema = {"type": "object", "properties": {_APPROVE: approve}, "required": [_APPROVE]}
    form = {"mode": "form", "message": error.question, "requestedSchema": schema}
    return {**_input_required(_APPROVAL_KEY, form), _STATE: error.state}


def approval_state(key: bytes, principal: str, approval_id: str) -> str:
    """Return what proves, when it comes back, that we asked `principal` about this question."""
    return f"{_OUR_STATE}{mac(key, _PURPOSE, principal, approval_id)}"


def is_approval_state(key: bytes, principal: str, approval_id: str, state: str) -> bool:
    """Whether `state` is `approval_state` of the same principal and question."""
    expected = approval_state(key, principal, approval_id)
    return hmac.compare_digest(expected.encode(), state.encode("utf-8", "surrogatepass"))


def answer_in(message: Message, profile: Profile) -> tuple[Message, Answered | None]:
    """Return `message` without what answers questions of ours, and that answer, unverified.

    What goes on is the call as it was before we asked; an upstream never sees what is ours.
    """
    if profile is Profile.LEGACY:
        return message, None
    params = message.params
    responses, state = params.get(_RESPONSES), params.get(_STATE)
    ours = _OUR_KEYS & responses.keys() if isinstance(responses, dict) else frozenset()
    is_our_state = isinstance(state, str) and state.startswith(_OUR_STATE)
    if not ours and not is_our_state:
        return message, None
    kept = dict(params)
    said: Any = None
    if isinstance(responses, dict):
        said = responses.get(_APPROVAL_KEY)
        kept[_RESPONSES] = {name: responses[name] for name in responses if name not in ours}
        if not kept[_RESPONSES]:
            del kept[_RESPONSES]
    if is_our_state:
        del kept[_STATE]
    return with_params(message, kept), Answered(
        yes=_yes(said), state=str(state) if is_our_state else ""
    )


def _yes(said: object) -> bool | None:
    """Read an `ElicitResult`: accepted with a yes, a no in either form, or nothing said."""
    if not isinstance(said, dict):
        return None
    match said.get("action"):
        case "accept":
            content = said.get("content")
            yes = content.get(_APPROVE) if isinstance(content, dict) else None
            return yes if isinstance(yes, bool) else None
        case "decline":
            return False
        case _:
            return None


def _input_required(key: str, params: Mapping[str, Any]) -> dict[str, Any]:
    asked = {"method": "elicitation/create", "params": params}
    return {"resultType": "input_required", "inputRequests": {key: asked}}


def _params(error: CredentialRequired | ApprovalRequired) -> dict[str, Any]:
    message = error.question if isinstance(error, ApprovalRequired) else error.public
    return {"mode": "url", "message": message, "url": error.url}


def _declares_form(message: Message) -> bool:
    """Whether the client can show a form: it says so, or names no mode (2025-11-25, elicitation)."""
    capabilities = _member(meta_of(message), MODERN_CAPABILITIES_KEY)
    found = capabilities.get("elicitation")
    return found == {} or (isinstance(found, dict) and isinstance(found.get("form"), dict))


def _elicitation(message: Message) -> Mapping[str, Any]:
    return _member(meta_of(message), MODERN_CAPABILITIES_KEY, "elicitation")


def _member(holder: Mapping[str, Any], *names: str) -> Mapping[str, Any]:
    for name in names:
        found = holder.get(name)
        holder = found if isinstance(found, dict) else {}
    return holder
