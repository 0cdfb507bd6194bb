"""What a server says while no call is under way, in the words of either family of revisions."""

from collections.abc import Collection, Mapping, Sequence
from typing import Any, Final

from gateway.domain.calls import Message
from gateway.domain.tools import Kind
from gateway.wire import jsontext
from gateway.wire.bare_notices import ACKNOWLEDGED, UPDATED
from gateway.wire.server_message import ServerMessage, with_member

SUBSCRIPTION_KEY: Final = "io.modelcontextprotocol/subscriptionId"
"""In `_meta` of all that is said on a stream of the stateless revision: the id of its request."""
RESOURCES_CHANGED: Final = "notifications/resources/list_changed"
TASK_IDS: Final = "taskIds"
_TASKS: Final = "notifications/tasks"
_CHANGED: Final = {
    Kind.TOOL: "notifications/tools/list_changed",
    Kind.PROMPT: "notifications/prompts/list_changed",
    Kind.RESOURCE: RESOURCES_CHANGED,
}
_ASKED_FOR: Final = {
    Kind.TOOL: "toolsListChanged",
    Kind.PROMPT: "promptsListChanged",
    Kind.RESOURCE: "resourcesListChanged",
}
_FILTER: Final = "notifications"
_URIS: Final = "resourceSubscriptions"
CHANGING: Final = tuple(_CHANGED)
"""Of what kinds there are lists that change."""

Subscription = str | int | None
"""The id of the request that listens; `None` in the legacy revisions."""


def lists_wanted(params: Mapping[str, Any]) -> frozenset[Kind]:
    """Return which lists a subscriptions/listen wants to hear of."""
    wanted = params.get(_FILTER)
    asked = wanted if isinstance(wanted, dict) else {}
    return frozenset(kind for kind, member in _ASKED_FOR.items() if asked.get(member) is True)


def listening(
    params: Mapping[str, Any], uris: Sequence[str] | None, own: Sequence[str] = ()
) -> Mapping[str, Any]:
    """Return `params` of a subscriptions/listen that wants to hear of these resources.

    With `None` it is left with the lists, and with those of its resources that are our `own`; with
    URIs, of lists it hears nothing.
    """
    if uris is not None:
        return {**params, _FILTER: {_URIS: list(uris)}}
    wanted = params.get(_FILTER)
    kept = wanted if isinstance(wanted, dict) else {}
    lists = {name: kept[name] for name in kept if name != _URIS}
    return {**params, _FILTER: {**lists, **({_URIS: list(own)} if own else {})}}


def honored(params: Mapping[str, Any]) -> frozenset[str]:
    """Return of which resources an acknowledgement says that the server will tell."""
    said = params.get(_FILTER)
    uris = said.get(_URIS) if isinstance(said, dict) else None
    return (
        frozenset(u for u in uris if isinstance(u, str)) if isinstance(uris, list) else frozenset()
    )


def acknowledged(lists: Collection[Kind], uris: Sequence[str], to: Subscription) -> bytes:
    """Return what a stream of the stateless revision begins with: what will be told on it."""
    agreed: dict[str, Any] = {_ASKED_FOR[kind]: True for kind in CHANGING if kind in lists}
    if uris:
        agreed[_URIS] = list(uris)
    return _notification(ACKNOWLEDGED, {_FILTER: agreed}, to)


def acknowledging(message: ServerMessage, handles: Sequence[str]) -> bytes | None:
    """Return an acknowledgement that says that these tasks are told of as well; `None` of any other message."""
    if message.method != ACKNOWLEDGED:
        return None
    said = message.params.get(_FILTER)
    agreed = {**(said if isinstance(said, dict) else {}), TASK_IDS: list(handles)}
    return with_member(message, "params", {**message.params, _FILTER: agreed})


def task_told(told: Mapping[str, Any], to: Subscription) -> bytes:
    """Return the notification of what is `told` of a task: all that a look would tell."""
    params = {name: inner for name, inner in told.items() if name != "resultType"}
    return _notification(_TASKS, params, to)


def list_changed(kind: Kind, to: Subscription) -> bytes:
    """Return the notification that the list of `kind` is another one."""
    return _notification(_CHANGED[kind], {}, to)


def updated(uri: str, to: Subscription) -> bytes:
    """Return the notification that a resource may have to be read again."""
    return _notification(UPDATED, {"uri": uri}, to)


def over(request: Message) -> bytes:
    """Return the response that ends a stream of the stateless revision in good order."""
    result = {"resultType": "complete", "_meta": {SUBSCRIPTION_KEY: request.id}}
    return jsontext.write({"jsonrpc": "2.0", "id": request.id, "result": result}).encode()


def _notification(method: str, params: Mapping[str, Any], to: Subscription) -> bytes:
    if to is not None:
        params = {**params, "_meta": {SUBSCRIPTION_KEY: to}}
    content = {"jsonrpc": "2.0", "method": method, **({"params": params} if params else {})}
    return jsontext.write(content).encode()
