"""Every method of every MCP revision, and what becomes of it here.

The table is the whole truth: a method that is not in it is refused, and a test holds it against the
SDK's own lists, so that a new one is judged before it passes.
"""

from collections.abc import Mapping
from enum import StrEnum
from typing import Any

from gateway.domain._value import value
from gateway.domain.calls import Call, Form, Message
from gateway.domain.tools import OWN, Kind, Profile
from gateway.errors import ProtocolError
from gateway.wire.bounds import LONGEST_NAME, too_long, within
from gateway.wire.jsonrpc import INVALID_PARAMS, METHOD_NOT_FOUND


class Handling(StrEnum):
    """How a message is treated."""

    CARRIED = "carried"
    """It has a target, and policy decides on it."""
    PROTOCOL = "protocol"
    """It is the protocol's own and has no target; lists are filtered on the way back."""
    OURS = "ours"
    """It is for the gateway itself, and goes nowhere else."""
    REFUSED = "refused"
    """Not offered."""


class Sender(StrEnum):
    CLIENT = "client"
    SERVER = "server"


@value
class Operation:
    """One row: what a method is, and how it is treated."""

    method: str
    sender: Sender
    form: Form
    """`REQUEST` or `NOTIFICATION`; the other form of the same method is refused."""
    handling: Handling
    profiles: frozenset[Profile]
    """The families of revisions that have it."""
    refused_in: frozenset[Profile] = frozenset()
    """Those of them in which it is not offered."""
    kind: Kind | None = None
    """What it is about, where it names a target."""
    name_at: str | None = None
    """The member of params that holds the target's name."""
    lists: Kind | None = None
    """What its result is a list of."""
    member: str | None = None
    """The member of the result that holds the list."""
    announces: tuple[Kind, ...] = ()
    """Whose lists changed when a server sends it."""
    scopes: tuple[str, ...] = ()
    """What the token must hold; `scopes_of` says what the params add."""


_LEGACY = frozenset({Profile.LEGACY})
_MODERN = frozenset({Profile.MODERN})
_BOTH = _LEGACY | _MODERN

_MOST_FOLLOWED = 200
"""Resources on one stream: each is a call of its own."""
_MOST_WATCHED = 100
"""Tasks on one stream: each is looked at again and again."""
LISTEN = "subscriptions/listen"
SUBSCRIBE = "resources/subscribe"
UNSUBSCRIBE = "resources/unsubscribe"
TASKS_GET = "tasks/get"
TASKS_UPDATE = "tasks/update"
TASKS_CANCEL = "tasks/cancel"
ABOUT_TASKS = frozenset({TASKS_GET, TASKS_UPDATE, TASKS_CANCEL})
"""Requests about a call whose answer is late, by whoever made it."""
TOOLS_CALL = "tools/call"
CANCELLED = "notifications/cancelled"
ELICIT = "elicitation/create"
SEARCH_TOOLS = "search_tools"
TOOL_DETAILS = "get_tool_details"
CALL_TOOL = "call_tool"
RUN_CODE = "run_code"
SEARCH_SERVERS = "search_available_servers"
ENABLE_SERVER = "enable_server"
CHOOSES = "servers:manage"
"""The scope of whoever may change which servers are shown to them."""
DISABLE_SERVER = "disable_server"
TOOL_DESCRIPTIONS = "resource:///tool_descriptions"
RUN_BEGIN = "douane/run/begin"
RUN_END = "douane/run/end"


def _request(
    method: str,
    handling: Handling,
    profiles: frozenset[Profile],
    *,
    kind: Kind | None = None,
    name_at: str | None = None,
    lists: tuple[Kind, str] | None = None,
    scopes: tuple[str, ...] = (),
    refused_in: frozenset[Profile] = frozenset(),
) -> Operation:
    return Operation(
        method=method,
        sender=Sender.CLIENT,
        form=Form.REQUEST,
        handling=handling,
        profiles=profiles,
        refused_in=refused_in,
        kind=kind,
        name_at=name_at,
        lists=lists[0] if lists else None,
        member=lists[1] if lists else None,
        scopes=scopes,
    )


def _notification(
    sender: Sender,
    method: str,
    profiles: frozenset[Profile],
    *,
    handling: Handling = Handling.PROTOCOL,
    announces: tuple[Kind, ...] = (),
    kind: Kind | None = None,
    name_at: str | None = None,
) -> Operation:
    return Operation(
        method=method,
        sender=sender,
        form=Form.NOTIFICATION,
        handling=handling,
        profiles=profiles,
        announces=announces,
        kind=kind,
        name_at=name_at,
    )


def _asked_of_client(method: str, handling: Handling, kind: Kind | None = None) -> Operation:
    return Operation(
        method=method,
        sender=Sender.SERVER,
        form=Form.REQUEST,
        handling=handling,
        profiles=_LEGACY,
        kind=kind,
    )


# fmt: off
_CLIENT_REQUESTS = (
    _request("initialize", Handling.PROTOCOL, _LEGACY),
    _request("ping", Handling.PROTOCOL, _LEGACY),
    _request("logging/setLevel", Handling.PROTOCOL, _LEGACY),
    _request("server/discover", Handling.PROTOCOL, _MODERN),
    _request(LISTEN, Handling.PROTOCOL, _MODERN),
    _request("tools/list", Handling.PROTOCOL, _BOTH, lists=(Kind.TOOL, "tools"), scopes=("tools:list",)),
    _request("tools/call", Handling.CARRIED, _BOTH, kind=Kind.TOOL, name_at="name", scopes=("tools:call",)),
    _request("prompts/list", Handling.PROTOCOL, _BOTH, lists=(Kind.PROMPT, "prompts"), scopes=("prompts",)),
    _request("prompts/get", Handling.CARRIED, _BOTH, kind=Kind.PROMPT, name_at="name", scopes=("prompts",)),
    _request("resources/list", Handling.PROTOCOL, _BOTH, lists=(Kind.RESOURCE, "resources"), scopes=("resources",)),
    _request("resources/templates/list", Handling.PROTOCOL, _BOTH, lists=(Kind.TEMPLATE, "resourceTemplates"), scopes=("resources",)),
    _request("resources/read", Handling.CARRIED, _BOTH, kind=Kind.RESOURCE, name_at="uri", scopes=("resources",)),
    _request(SUBSCRIBE, Handling.CARRIED, _LEGACY, kind=Kind.RESOURCE, name_at="uri", scopes=("resources",)),
    _request(UNSUBSCRIBE, Handling.CARRIED, _LEGACY, kind=Kind.RESOURCE, name_at="uri", scopes=("resources",)),
    _request("completion/complete", Handling.CARRIED, _BOTH, kind=Kind.COMPLETION, name_at="ref"),
    # In the older revisions a task is another thing, which nobody is told that we had.
    _request(TASKS_GET, Handling.PROTOCOL, _BOTH, refused_in=_LEGACY, name_at="taskId", scopes=("tools:call",)),
    _request(TASKS_UPDATE, Handling.PROTOCOL, _MODERN, name_at="taskId", scopes=("tools:call",)),
    _request(TASKS_CANCEL, Handling.PROTOCOL, _BOTH, refused_in=_LEGACY, name_at="taskId", scopes=("tools:call",)),
    _request("tasks/result", Handling.REFUSED, _LEGACY),
    _request("tasks/list", Handling.REFUSED, _LEGACY),
)

_CLIENT_NOTIFICATIONS = (
    _notification(Sender.CLIENT, "notifications/initialized", _LEGACY),
    _notification(Sender.CLIENT, CANCELLED, _BOTH),
    _notification(Sender.CLIENT, "notifications/progress", _LEGACY),
    _notification(Sender.CLIENT, "notifications/roots/list_changed", _LEGACY),
    _notification(Sender.CLIENT, "notifications/tasks/status", _LEGACY, handling=Handling.REFUSED),
)

_SERVER_REQUESTS = (
    _asked_of_client("ping", Handling.PROTOCOL),
    _asked_of_client("sampling/createMessage", Handling.CARRIED, Kind.SERVER_REQUEST),
    _asked_of_client(ELICIT, Handling.CARRIED, Kind.SERVER_REQUEST),
    _asked_of_client("roots/list", Handling.CARRIED, Kind.SERVER_REQUEST),
    _asked_of_client("tasks/get", Handling.REFUSED),
    _asked_of_client("tasks/result", Handling.REFUSED),
    _asked_of_client("tasks/cancel", Handling.REFUSED),
    _asked_of_client("tasks/list", Handling.REFUSED),
)

_SERVER_NOTIFICATIONS = (
    _notification(Sender.SERVER, CANCELLED, _BOTH),
    _notification(Sender.SERVER, "notifications/progress", _BOTH),
    _notification(Sender.SERVER, "notifications/message", _BOTH),
    _notification(Sender.SERVER, "notifications/elicitation/complete", _LEGACY),
    _notification(Sender.SERVER, "notifications/subscriptions/acknowledged", _MODERN),
    _notification(Sender.SERVER, "notifications/resources/updated", _BOTH, kind=Kind.RESOURCE, name_at="uri"),
    _notification(Sender.SERVER, "notifications/tools/list_changed", _BOTH, announces=(Kind.TOOL,)),
    _notification(Sender.SERVER, "notifications/prompts/list_changed", _BOTH, announces=(Kind.PROMPT,)),
    _notification(Sender.SERVER, "notifications/resources/list_changed", _BOTH, announces=(Kind.RESOURCE, Kind.TEMPLATE)),
    _notification(Sender.SERVER, "notifications/tasks/status", _LEGACY, handling=Handling.REFUSED),
    _notification(Sender.SERVER, "notifications/tasks", _MODERN, handling=Handling.REFUSED),
)

_OWN_REQUESTS = (
    _request(RUN_BEGIN, Handling.OURS, _BOTH, scopes=("tools:call",)),
    _request(RUN_END, Handling.OURS, _BOTH, scopes=("tools:call",)),
)
# fmt: on

OPERATIONS = (
    *_CLIENT_REQUESTS,
    *_CLIENT_NOTIFICATIONS,
    *_SERVER_REQUESTS,
    *_SERVER_NOTIFICATIONS,
)
"""What the revisions of MCP have."""
OWN_OPERATIONS = _OWN_REQUESTS
"""What no revision has, and no server is asked."""
OF_OUR_OWN = frozenset(row.method for row in OWN_OPERATIONS)
"""Requests that are for the gateway alone, and go nowhere else."""
_LISTING_TOOL = _request(
    TOOLS_CALL, Handling.PROTOCOL, _BOTH, lists=(Kind.TOOL, "tools"), scopes=("tools:list",)
)
_CHOOSING_TOOL = _request(TOOLS_CALL, Handling.PROTOCOL, _BOTH, scopes=(CHOOSES,))
_OWN_TOOLS = {
    **dict.fromkeys((SEARCH_TOOLS, TOOL_DETAILS, CALL_TOOL, SEARCH_SERVERS), _LISTING_TOOL),
    **dict.fromkeys((ENABLE_SERVER, DISABLE_SERVER), _CHOOSING_TOOL),
}
OWN_NAMES = frozenset({*_OWN_TOOLS, RUN_CODE})
"""Names of the gateway's own tools: whoever calls by one means no server's."""
_OWN_RESOURCE = _request(
    "resources/read",
    Handling.PROTOCOL,
    _BOTH,
    lists=(Kind.TOOL, "contents"),
    scopes=("tools:list",),
)
_ABOUT_RESOURCES = frozenset({"resources/read", SUBSCRIBE, UNSUBSCRIBE})
_BY_METHOD = {(row.sender, row.method): row for row in (*OPERATIONS, *OWN_OPERATIONS)}

REFERENCES = {
    "ref/prompt": (Kind.PROMPT, "name", "prompts"),
    "ref/resource": (Kind.TEMPLATE, "uri", "resources"),
}
"""By its type: what a completion's reference names, by which of its members, and what that needs."""


def find(sender: Sender, method: str) -> Operation | None:
    """Return the row of `method` as `sender` may send it, or nothing."""
    return _BY_METHOD.get((sender, method))


def own_tool(call: Call) -> Operation | None:
    """Return the row of a call of the gateway's own tools, or nothing.

    What they answer is a list of tools, and so is how they are treated. A `call_tool` that is still
    one calls nothing: it is told what it lacks.
    """
    if call.server != OWN or call.message.method != TOOLS_CALL:
        return None
    name = call.message.params.get("name")
    return _OWN_TOOLS.get(name) if isinstance(name, str) else None


def own_resource(call: Call) -> Operation | None:
    """Return the row of what is asked about the gateway's own resource, or nothing.

    What it says is a list of tools, too.
    """
    if call.server != OWN or call.message.method not in _ABOUT_RESOURCES:
        return None
    return _OWN_RESOURCE if is_descriptions(call.message.params.get("uri")) else None


def own_row(call: Call) -> Operation | None:
    """Return the row of what the gateway answers out of its own, or nothing."""
    return None if call.server != OWN else own_tool(call) or own_resource(call)


def is_descriptions(uri: object) -> bool:
    """Whether `uri` is the resource that describes tools, of whichever tools."""
    return isinstance(uri, str) and uri.partition("?")[0].removesuffix("/") == TOOL_DESCRIPTIONS


def judge(message: Message, profile: Profile) -> Operation:
    """Return the row of a client's request or notification, which may go on to policy.

    Its target's name is in place, if it has one.

    Raises:
        ProtocolError: The method is unknown, refused or not of this family of revisions; it comes
            in the wrong form; the target's name is missing; a name is longer than `LONGEST_NAME`;
            or its arguments are no object.

    """
    # No name is longer than the body that it stands in; messages of our own making may lack one.
    if not 0 < len(message.body) <= LONGEST_NAME:
        _require_bounded(message)
    row = _BY_METHOD.get((Sender.CLIENT, message.method))
    if (
        row is None
        or row.handling is Handling.REFUSED
        or profile not in row.profiles
        or profile in row.refused_in
    ):
        raise _not_found(message, profile)
    if row.form is not message.form:
        expected = "an id" if row.form is Form.REQUEST else "no id"
        raise ProtocolError(f"{message.method} must have {expected}", rpc_id=message.id)
    if row.name_at is not None:
        target_name(row, message.params, rpc_id=message.id)
    if not isinstance(message.params.get("arguments"), dict | None):
        raise _bad_params(f"{row.method} needs arguments that are an object", message.id)
    if row.method != "tools/call":
        _require_texts(row.method, message)
    if row.method == LISTEN:
        subscribed(message.params, rpc_id=message.id)
    return row


def target_name(
    row: Operation, params: Mapping[str, Any], *, rpc_id: str | int | None = None
) -> str:
    """Return the name of the target that `params` of `row` name; of a completion, what it completes.

    Raises:
        ProtocolError: It has none, or not a string.

    """
    if row.kind is Kind.COMPLETION:
        return completed(params, rpc_id=rpc_id)[1]
    name = params.get(row.name_at) if row.name_at is not None else None
    if not isinstance(name, str) or not name:
        raise _bad_params(f"{row.method} needs a string {row.name_at}", rpc_id)
    if not within(name):
        raise _bad_params(f"{row.name_at} is longer than {LONGEST_NAME} bytes", rpc_id)
    return name


def completed(params: Mapping[str, Any], *, rpc_id: str | int | None = None) -> tuple[Kind, str]:
    """Return what a completion/complete completes: a prompt's name or a template's URI.

    Raises:
        ProtocolError: The reference is not one of these.

    """
    kind, name, _ = _reference(params, rpc_id)
    return kind, name


def subscribed(params: Mapping[str, Any], *, rpc_id: str | int | None = None) -> tuple[str, ...]:
    """Return the URIs of the resources that a subscriptions/listen wants to hear of, each once.

    Raises:
        ProtocolError: They are not a list of strings, or too many.

    """
    wanted = params.get("notifications")
    uris = wanted.get("resourceSubscriptions") if isinstance(wanted, dict) else None
    if uris is None:
        return ()
    if not isinstance(uris, list) or not all(isinstance(uri, str) and uri for uri in uris):
        raise _bad_params("resourceSubscriptions must be a list of URIs", rpc_id)
    if len(uris) > _MOST_FOLLOWED:
        raise _bad_params(f"resourceSubscriptions are {_MOST_FOLLOWED} at most", rpc_id)
    return tuple(dict.fromkeys(uris))


def watched(params: Mapping[str, Any], *, rpc_id: str | int | None = None) -> tuple[str, ...]:
    """Return the handles of the tasks that a subscriptions/listen wants to hear of, each once.

    Raises:
        ProtocolError: They are not a list of strings, or too many.

    """
    wanted = params.get("notifications")
    handles = wanted.get("taskIds") if isinstance(wanted, dict) else None
    if handles is None:
        return ()
    if not isinstance(handles, list) or not all(isinstance(one, str) and one for one in handles):
        raise _bad_params("taskIds must be a list of strings", rpc_id)
    if len(handles) > _MOST_WATCHED:
        raise _bad_params(f"taskIds are {_MOST_WATCHED} at most", rpc_id)
    return tuple(dict.fromkeys(handles))


def followed(call: Call) -> tuple[str, ...]:
    """Return the URIs of the servers' resources that a subscriptions/listen wants to hear of.

    Raises:
        ProtocolError: As `subscribed`.

    """
    uris = subscribed(call.message.params, rpc_id=call.message.id)
    return tuple(uri for uri in uris if call.server != OWN or not is_descriptions(uri))


def scopes_of(row: Operation, params: Mapping[str, Any]) -> tuple[str, ...]:
    """Return the scopes that this request needs whatever its target turns out to be.

    A tool's effect may add `tools:write`, which only its pinned definition tells.

    Raises:
        ProtocolError: As `completed` and `subscribed`.

    """
    if row.kind is Kind.COMPLETION:
        return (_reference(params, None)[2],)
    if row.method == LISTEN and subscribed(params):
        return ("resources",)
    return row.scopes


def _require_texts(method: str, message: Message) -> None:
    """Hold what the protocol has as texts to texts: other values have room for what nobody reads there."""
    params = message.params
    texts: list[Any] = []
    if method.endswith("/list"):
        texts = [] if params.get("cursor") is None else [params["cursor"]]
    elif method == "prompts/get":
        texts = [*(params.get("arguments") or {}).values()]
    elif method == "completion/complete":
        asked, context = params.get("argument"), params.get("context")
        known = context.get("arguments") if isinstance(context, dict) else None
        texts = [*asked.values()] if isinstance(asked, dict) else []
        texts += known.values() if isinstance(known, dict) else []
    if not all(isinstance(text, str) for text in texts):
        raise _bad_params(f"{method} takes texts here, and nothing else", message.id)


def _require_bounded(message: Message) -> None:
    place = too_long(message.params)
    if place is not None:
        public = f"A name in {place} is longer than {LONGEST_NAME} bytes"
        raise _bad_params(public, message.id)


def _reference(params: Mapping[str, Any], rpc_id: str | int | None) -> tuple[Kind, str, str]:
    ref = params.get("ref")
    if isinstance(ref, dict) and isinstance(kind := ref.get("type"), str) and kind in REFERENCES:
        completes, member, scope = REFERENCES[kind]
        if isinstance(name := ref.get(member), str) and name and within(name):
            return completes, name, scope
    raise _bad_params("completion/complete needs a ref to a prompt or a template", rpc_id)


def _bad_params(public: str, rpc_id: str | int | None) -> ProtocolError:
    return ProtocolError(public, rpc_code=INVALID_PARAMS, rpc_id=rpc_id)


def _not_found(message: Message, profile: Profile) -> ProtocolError:
    # 2026-07-28 wants 404; a session's client would read it as the end of its session.
    refused = 200 if message.form is Form.REQUEST else 400
    status = 404 if profile is Profile.MODERN else refused
    return ProtocolError(
        "Method not found", status=status, rpc_code=METHOD_NOT_FOUND, rpc_id=message.id
    )
