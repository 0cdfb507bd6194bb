"""Asking a client to send its user to a URL of ours: URL mode elicitation.

Revision 2025-11-25 has an error for it, 2026-07-28 a result that asks for input; earlier ones have
nothing. Where a client did not say that it can do this, the URL stands in the refusal's text.
"""

from collections.abc import Mapping
from typing import Any, Final

from gateway.domain.calls import Call
from gateway.domain.tools import Profile
from gateway.errors import CredentialRequired
from gateway.wire.inbound import MODERN_CAPABILITIES_KEY, meta_of
from gateway.wire.session import says_url

URL_REQUIRED: Final = -32042
"""2025-11-25, client features, elicitation: URLElicitationRequiredError."""

_SINCE: Final = "2025-11-25"
_ASKS: Final = frozenset({"tools/call", "prompts/get", "resources/read"})
"""Methods whose result may ask for input (2026-07-28, multi round-trip requests)."""
_KEY: Final = "douane-connect"


def declares_url(call: Call) -> bool:
    """Whether the client said that it can send its user to a URL, now or when its session began."""
    message = call.message
    if call.profile is Profile.MODERN:
        return _has_url(meta_of(message).get(MODERN_CAPABILITIES_KEY))
    if message.method == "initialize":
        return _has_url(message.params.get("capabilities"))
    return call.session is not None and says_url(call.session)


def can_be_asked(call: Call) -> bool:
    """Whether the answer to `call` may ask its client to send the user to a URL.

    In the stateless revision only once: a client that was asked already comes back at once, perhaps
    before its user is done, and would be asked for ever.
    """
    if not declares_url(call):
        return False
    if call.profile is Profile.LEGACY:
        return call.revision == _SINCE
    message = call.message
    return message.method in _ASKS and message.params.keys().isdisjoint(
        {"inputResponses", "requestState"}
    )


def url_error(error: CredentialRequired, elicitation_id: str) -> Mapping[str, Any]:
    """Return the `data` of the error that asks a client of a session."""
    return {"elicitations": [{**_params(error), "elicitationId": elicitation_id}]}


def url_result(error: CredentialRequired) -> Mapping[str, Any]:
    """Return the result that asks a client of the stateless revision."""
    asked = {"method": "elicitation/create", "params": _params(error)}
    return {"resultType": "input_required", "inputRequests": {_KEY: asked}}


def _params(error: CredentialRequired) -> dict[str, Any]:
    return {"mode": "url", "message": error.public, "url": error.url}


def _has_url(capabilities: object) -> bool:
    if not isinstance(capabilities, dict):
        return False
    elicitation = capabilities.get("elicitation")
    return isinstance(elicitation, dict) and isinstance(elicitation.get("url"), dict)
