"""From a plane's question to the call that it is about: the COAZ-MCP binding, and what it leaves open.

The binding's table says which resource goes with which MCP method. It sends neither the server's name
nor the arguments; both are asked for here, as nothing can be decided without them.
"""

from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Any, Final

from gateway.domain.calls import Call, CallId, Form, Message, OriginKind
from gateway.domain.flow import Task
from gateway.domain.identity import Asserted
from gateway.domain.planes import ForeignType, Plane
from gateway.domain.tools import OWN, Kind, Manifest, Profile, Target, UpstreamId
from gateway.errors import Denied, ProtocolError
from gateway.ports import PinStore
from gateway.wire import jsontext
from gateway.wire.authzen import Entity, Evaluation
from gateway.wire.eras import is_stateless
from gateway.wire.operations import Sender, find
from gateway.wire.own import TASK_KEY, told_us
from gateway.wire.revisions import REVISIONS

EVALUATION: Final = "/access/v1/evaluation"
"""The endpoint that such calls come in at."""
_SUBJECTS: Final = frozenset({"identity", "user"})
"""Types of subjects: the binding's, and what decision points that know no MCP call a person."""
_SERVER: Final = "mcp_server"
_NAMED: Final[Mapping[str, tuple[str, ...]]] = {
    "tools/call": ("tool",),
    "prompts/get": ("prompt",),
    "resources/read": ("resource",),
    "resources/subscribe": ("resource",),
    "resources/unsubscribe": ("resource",),
    "completion/complete": ("prompt", "resource"),
    **dict.fromkeys(
        (
            "initialize",
            "ping",
            "logging/setLevel",
            "server/discover",
            "tools/list",
            "prompts/list",
            "resources/list",
            "resources/templates/list",
        ),
        (_SERVER,),
    ),
}
"""Which types of resources go with a method; whatever is not here is a no."""
METHODS: Final = frozenset(_NAMED)
_LISTS: Final[Mapping[str, str]] = {"tool": "tools/list", "prompt": "prompts/list"}
_RPC_ID: Final = 1
_DIGEST: Final = "definition_digest"
_NEWEST: Final = {Profile.MODERN if is_stateless(one) else Profile.LEGACY: one for one in REVISIONS}
Profiled = Callable[[UpstreamId], Profile]
"""In which family of revisions a server is known, where a question does not say."""


def profiled(pins: PinStore, server: UpstreamId) -> Profile:
    """Return in which family of revisions a server is known, by its own pin."""
    target = Target(server=server, kind=Kind.SERVER, name=server)
    return Profile.LEGACY if pins.find(target, Profile.MODERN) is None else Profile.MODERN


def unread(id_: CallId, *, source_ip: str) -> Call:
    """Return a call that stands for a question that could not be read; it is only refused."""
    return _call(id_, _UNREAD, OWN, ("", Profile.MODERN), source_ip=source_ip)


def call_of(
    plane: Plane, asked: Evaluation, profiled: Profiled, *, id_: CallId, source_ip: str
) -> Call:
    """Return the call that `plane` asks about.

    Raises:
        ProtocolError: A question is not as it has to be: status 400.
        Denied: It is about nothing that this plane may ask, or lacks what is decided on.

    """
    asserted = asserted_by(plane, asked)
    foreign = plane.types.get(asked.resource.type)
    if foreign is not None:
        server, message = foreign.server, _request("tools/call", _foreign(foreign, asked))
    else:
        server = _server(plane, asked.resource)
        message = _request(asked.action, _params(asked))
    return _call(
        id_,
        message,
        server,
        _spoken(asked, message.method, server, profiled),
        source_ip=source_ip,
        asserted=asserted,
        definition_hash=_followed(asked.resource),
        run_hint=asked.run,
        declared=None if asked.task is None else _declared(asked.task),
    )


def require_told(plane: Plane, asked: Evaluation, manifest: Manifest) -> None:
    """Return unless a question may say of its call what the call's own server chose.

    A server may declare how its calls are asked about, and a plane that follows that asks in other
    words. What was followed has to be what was approved, and what is decided on the whole call.

    Raises:
        Denied: It may.

    """
    if asked.resource.type not in plane.types or not manifest.is_mapped:
        return
    if asked.arguments is None:
        raise _no("arguments_missing", "its server chose what is asked; tell `context.arguments`")
    if _followed(asked.resource) is None:
        raise _no("mapping_unknown", "its server chose what is asked; tell the definition's digest")


def list_call_of(
    plane: Plane, asked: Evaluation, profiled: Profiled, *, id_: CallId, source_ip: str
) -> Call:
    """Return the call that lists what `plane` searches for: resources of a type, at one server.

    Raises:
        ProtocolError: A search is not as it has to be: status 400.
        Denied: There are no such resources here for this plane.

    """
    kind = asked.resource.type
    method = _LISTS.get(kind)
    if method is None:
        raise _no("unknown_type", "tools and prompts can be searched for")
    server = _server(plane, asked.resource)
    message = _request(method, {})
    spoken = _spoken(asked, method, server, profiled)
    asserted = asserted_by(plane, asked)
    return _call(id_, message, server, spoken, source_ip=source_ip, asserted=asserted)


def methods_of(type_: str) -> tuple[str, ...]:
    """Return the MCP methods that go with a type of resource, in their order."""
    return tuple(method for method, types in _NAMED.items() if type_ in types)


def _call(
    id_: CallId,
    message: Message,
    server: UpstreamId,
    spoken: tuple[str, Profile],
    *,
    source_ip: str,
    asserted: Asserted | None = None,
    **more: Any,
) -> Call:
    revision, profile = spoken
    return Call(
        id=id_,
        endpoint=EVALUATION,
        server=server,
        message=message,
        revision=revision,
        profile=profile,
        headers=(),
        credential=None if asserted is None else replace(asserted, server=server),
        session=None,
        source_ip=source_ip,
        origin=OriginKind.PLANE,
        **more,
    )


def _request(method: str, params: Mapping[str, Any]) -> Message:
    whole = {"jsonrpc": "2.0", "id": _RPC_ID, "method": method, "params": params}
    return Message(
        form=Form.REQUEST,
        method=method,
        id=_RPC_ID,
        params=params,
        body=jsontext.write_octets(whole),
    )


_UNREAD: Final = _request("", {})


def _declared(task: Mapping[str, Any]) -> Task | None:
    """Return the user's task, read as it is where a host declares it with a call."""
    return told_us(_request("", {"_meta": {TASK_KEY: task}}))[1]


def asserted_by(plane: Plane, asked: Evaluation) -> Asserted:
    """Return whom a question names, if the plane may ask for them.

    Raises:
        ProtocolError: A member has another type, or there are several issuers and none is named.
        Denied: It may not, or nobody is named.

    """
    if asked.subject.type not in _SUBJECTS:
        raise _no("unknown_subject", "a subject is an `identity` or a `user`")
    issuer = asked.subject.properties.get("iss", "")
    if not isinstance(issuer, str):
        raise ProtocolError("this is no question: a subject's `iss` is no string")
    if not issuer:
        if len(plane.issuers) > 1:
            raise ProtocolError("this is no question: a subject's `iss` is missing")
        issuer = plane.issuers[0]
    if issuer not in plane.issuers:
        raise _no("unknown_subject", "this plane may not ask for people of that issuer")
    client = plane.client or asked.agent
    if not client:
        raise _no("unknown_client", "which client acts is told in `context.agent`")
    return Asserted(
        plane=plane.name,
        issuer=issuer,
        subject=asked.subject.id,
        client_id=client,
        groups=_groups(plane, asked.subject),
    )


def _groups(plane: Plane, subject: Entity) -> frozenset[str]:
    told = subject.properties.get(plane.groups_property) if plane.groups_property else None
    if told is None:
        return frozenset()
    groups = [told] if isinstance(told, str) else told
    if not isinstance(groups, list) or not all(isinstance(one, str) for one in groups):
        raise ProtocolError("this is no question: a subject's groups are no strings")
    return frozenset(groups)


def _server(plane: Plane, resource: Entity) -> UpstreamId:
    """Return whose resource it is, by what the plane calls that; one server needs no name."""
    told = resource.id if resource.type == _SERVER else resource.properties.get("server")
    if told is None and len(plane.servers) == 1:
        (server,) = plane.servers.values()
        return server
    server_of = plane.servers.get(told) if isinstance(told, str) else None
    if server_of is None:
        raise _no("unknown_server", "which server is meant is told in the resource's `server`")
    return server_of


def _params(asked: Evaluation) -> Mapping[str, Any]:
    method, resource = asked.action, asked.resource
    if resource.type not in _NAMED.get(method, ()):
        raise _no("unknown_action", "no such method of MCP goes with such a resource here")
    match method:
        case "tools/call" | "prompts/get":
            return {"name": resource.id, "arguments": _arguments(asked)}
        case "completion/complete":
            of = {"prompt": ("ref/prompt", "name"), "resource": ("ref/resource", "uri")}
            kind, name = of[resource.type]
            return {"ref": {"type": kind, name: resource.id}, "argument": _arguments(asked)}
        case _ if resource.type == "resource":
            return {"uri": resource.id}
        case _:
            return {}


def _arguments(asked: Evaluation) -> Mapping[str, Any]:
    if asked.arguments is None:
        raise _no("arguments_missing", "what a call says is told in `context.arguments`")
    return asked.arguments


def _followed(resource: Entity) -> str | None:
    """Return the digest of the definition by which a plane asks; `None` if it does not say."""
    told = resource.properties.get(_DIGEST)
    if told is not None and not isinstance(told, str):
        raise ProtocolError(f"this is no question: a resource's `{_DIGEST}` is no string")
    return told


def _foreign(type_: ForeignType, asked: Evaluation) -> Mapping[str, Any]:
    """Return the params of the tool that a question about something else than MCP is about.

    Its arguments are those that the question tells; without any, properties of the action count before
    those of the resource, and its id before both.
    """
    tool = type_.actions.get(asked.action)
    if tool is None:
        raise _no("unknown_action", "there is no such action on such a resource")
    if asked.arguments is not None:
        return {"name": tool, "arguments": asked.arguments}
    properties = {**asked.resource.properties, **asked.action_properties}
    properties.pop(_DIGEST, None)
    return {"name": tool, "arguments": {**properties, "id": asked.resource.id}}


def _spoken(
    asked: Evaluation, method: str, server: UpstreamId, profiled: Profiled
) -> tuple[str, Profile]:
    """Return which revision of MCP the plane speaks to its client, and its family."""
    if asked.revision:
        if asked.revision not in REVISIONS:
            raise _no("unknown_revision", "there is no such revision of MCP")
        modern = is_stateless(asked.revision)
        return asked.revision, Profile.MODERN if modern else Profile.LEGACY
    row = find(Sender.CLIENT, method)
    profiles = frozenset(Profile) if row is None else row.profiles
    profile = profiled(server)
    if profile not in profiles:
        (profile,) = profiles
    return _NEWEST[profile], profile


def _no(code: str, why: str) -> Denied:
    return Denied("this plane cannot be told yes to this", reasons=[(code, why)])
