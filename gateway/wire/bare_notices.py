"""What the protocol fixes of a server's notification: the rest is left out of it.

That a list changed, a resource did, or a request is taken back says nothing that anybody read. What
could say something counts as read, and what no specification names has no room here.
"""

from collections.abc import Callable, Mapping
from typing import Any, Final

from gateway.domain.calls import Message
from gateway.domain.vocabulary import names_in
from gateway.wire.bounds import within
from gateway.wire.jsonrpc import is_id
from gateway.wire.operations import CANCELLED
from gateway.wire.outgoing import SUBSCRIPTION

ACKNOWLEDGED: Final = "notifications/subscriptions/acknowledged"
UPDATED: Final = "notifications/resources/updated"
_META: Final = "_meta"
_WANTED: Final = "notifications"
_URIS: Final = "resourceSubscriptions"
_SPEAKING: Final = frozenset({"notifications/message", "notifications/progress"})
"""Methods whose params are the server's to fill."""


def bare_params(method: str, params: Mapping[str, Any], request: Message) -> Mapping[str, Any]:
    """Return what the protocol names in the params of a notification; the very same, if it is all.

    It comes on the stream of `request`, and is of its subscription or of none.
    """
    if method in _SPEAKING:
        return params
    forms = _FORMS.get(method, {})
    kept = {name: inner for name, inner in params.items() if name in forms and forms[name](inner)}
    if method == ACKNOWLEDGED and _WANTED in kept:
        kept[_WANTED] = _agreed(kept[_WANTED], request.params.get(_WANTED))
    meta = params.get(_META)
    if isinstance(meta, dict) and request.id is not None and _is(meta.get(SUBSCRIPTION), request):
        kept[_META] = {SUBSCRIPTION: request.id}
    return params if kept == params else kept


def speaks(
    method: str, params: Mapping[str, Any], request: Message, *, gave: Callable[[str], bool]
) -> bool:
    """Whether bare `params` say more than what the client, or the server before, has said already.

    `gave` tells of a resource's URI whether the server gave it out. Who is told that an elicitation
    is complete was asked by it, and has read that.
    """
    if uri := news_of(method, params, request):
        return not gave(uri)
    return method in _SPEAKING or not params.keys().isdisjoint({"reason", "elicitationId"})


def news_of(method: str, params: Mapping[str, Any], request: Message) -> str:
    """Return the URI of a resource that bare `params` name and its client does not; empty for none."""
    uri: str = params.get("uri", "") if method == UPDATED else ""
    return "" if uri in _asked(request.params.get(_WANTED)) else uri


def names_another(params: Mapping[str, Any], request: Message) -> bool:
    """Whether a cancellation is of another request than `request`."""
    named = params.get("requestId")
    return named is not None and not _is(named, request)


def _agreed(told: Mapping[str, Any], wanted: Any) -> Mapping[str, Any]:
    """Return what of a client's wishes the server says that it meets."""
    kept: dict[str, Any] = {
        name: inner for name, inner in told.items() if name in _LISTS and isinstance(inner, bool)
    }
    uris, asked = told.get(_URIS), _asked(wanted)
    if isinstance(uris, list):
        kept[_URIS] = [uri for uri in uris if isinstance(uri, str) and uri in asked]
    return kept


def _asked(wanted: Any) -> frozenset[str]:
    uris = wanted.get(_URIS) if isinstance(wanted, dict) else None
    return (
        frozenset(u for u in uris if isinstance(u, str)) if isinstance(uris, list) else frozenset()
    )


def _is(found: Any, request: Message) -> bool:
    # 1 and "1" are different ids (JSON-RPC 2.0 section 4).
    return type(found) is type(request.id) and bool(found == request.id)


def _is_text(found: Any) -> bool:
    return isinstance(found, str)


def _is_name(found: Any) -> bool:
    return isinstance(found, str) and within(found)


def _is_object(found: Any) -> bool:
    return isinstance(found, dict)


_LISTS: Final = names_in("wanted") - {_URIS}
_FORMS: Final[Mapping[str, Mapping[str, Callable[[Any], bool]]]] = {
    CANCELLED: {"requestId": is_id, "reason": _is_text},
    UPDATED: {"uri": _is_name},
    ACKNOWLEDGED: {_WANTED: _is_object},
    "notifications/elicitation/complete": {"elicitationId": _is_name},
}
"""By method and member; of any other method nothing is."""
