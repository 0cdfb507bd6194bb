"""Every method is judged, and nothing passes that is not."""

import typing
from collections.abc import Iterator
from types import ModuleType
from typing import Any

import mcp_types
import mcp_types._v2025_11_25 as v2025
import mcp_types._v2026_07_28 as v2026
import pytest
from mcp.shared.inbound import NAME_BEARING_METHODS
from mcp_types import methods as sdk
from pydantic import BaseModel, RootModel

from gateway.domain.calls import Form, Message
from gateway.domain.tools import Kind, Profile
from gateway.domain.vocabulary import names_in
from gateway.errors import ProtocolError
from gateway.wire.operations import (
    OPERATIONS,
    Handling,
    Operation,
    Sender,
    completed,
    find,
    judge,
    scopes_of,
    subscribed,
    target_name,
)

UNIONS = {
    "ClientRequest": (Sender.CLIENT, Form.REQUEST),
    "ClientNotification": (Sender.CLIENT, Form.NOTIFICATION),
    "ServerRequest": (Sender.SERVER, Form.REQUEST),
    "ServerNotification": (Sender.SERVER, Form.NOTIFICATION),
}
OFFERED = {
    "CLIENT_REQUESTS": (Sender.CLIENT, Form.REQUEST),
    "CLIENT_NOTIFICATIONS": (Sender.CLIENT, Form.NOTIFICATION),
    "SERVER_REQUESTS": (Sender.SERVER, Form.REQUEST),
    "SERVER_NOTIFICATIONS": (Sender.SERVER, Form.NOTIFICATION),
}
# The extension io.modelcontextprotocol/tasks, which the SDK does not know.
EXTENSION = {
    (Sender.CLIENT, "tasks/get", Profile.MODERN),
    (Sender.CLIENT, "tasks/cancel", Profile.MODERN),
    (Sender.CLIENT, "tasks/update", Profile.MODERN),
    (Sender.SERVER, "notifications/tasks", Profile.MODERN),
}


def variants(module: ModuleType, union: str) -> Iterator[type[BaseModel]]:
    found: Any = getattr(module, union, None)
    if found is None:
        return
    if isinstance(found, type) and issubclass(found, RootModel):
        found = found.model_fields["root"].annotation
    yield from typing.get_args(found) or (found,)


def method(model: type[BaseModel]) -> str:
    return str(typing.get_args(model.model_fields["method"].annotation)[0])


def members_of_params(model: type[BaseModel]) -> Iterator[str]:
    params = model.model_fields.get("params")
    annotation: Any = params.annotation if params is not None else None
    for kind in (annotation, *typing.get_args(annotation)):
        if isinstance(kind, type) and issubclass(kind, BaseModel):
            yield from (field.alias or name for name, field in kind.model_fields.items())


def message(
    method: str, params: dict[str, Any] | None = None, form: Form = Form.REQUEST
) -> Message:
    rpc_id = 1 if form is Form.REQUEST else None
    return Message(form=form, method=method, id=rpc_id, params=params or {}, body=b"")


def row(method: str) -> Operation:
    found = find(Sender.CLIENT, method)
    assert found is not None
    return found


def refused(asked: Message, profile: Profile = Profile.LEGACY) -> tuple[int, int]:
    with pytest.raises(ProtocolError) as caught:
        judge(asked, profile)
    assert caught.value.rpc_id == asked.id
    return caught.value.status, caught.value.rpc_code


@pytest.mark.parametrize(
    ("module", "profile"),
    [(v2025, Profile.LEGACY), (v2026, Profile.MODERN), (mcp_types, None)],
)
def test_every_method_of_the_schemas_is_judged(module: ModuleType, profile: Profile | None):
    for union, (sender, form) in UNIONS.items():
        for model in variants(module, union):
            judged = find(sender, method(model))
            assert judged is not None, f"judge {method(model)} in gateway/wire/operations.py"
            assert judged.form is form
            assert profile is None or profile in judged.profiles


def test_the_table_has_exactly_what_the_revisions_have():
    table = {(row.sender, row.method, profile) for row in OPERATIONS for profile in row.profiles}
    schemas = {
        (sender, method(model), profile)
        for module, profile in ((v2025, Profile.LEGACY), (v2026, Profile.MODERN))
        for union, (sender, _) in UNIONS.items()
        for model in variants(module, union)
    }
    assert table == schemas | EXTENSION


def test_what_is_offered_is_exactly_what_the_sdk_serves():
    offered = {
        (row.sender, row.form, row.method, profile)
        for row in OPERATIONS
        for profile in row.profiles
        if row.handling is not Handling.REFUSED and profile not in row.refused_in
    }
    served = {
        (*asked, name, Profile.MODERN if version == "2026-07-28" else Profile.LEGACY)
        for table, asked in OFFERED.items()
        for name, version in getattr(sdk, table)
    }
    extension = {
        (sender, Form.REQUEST, name, profile)
        for sender, name, profile in EXTENSION
        if sender is Sender.CLIENT
    }
    assert offered == served | extension


def test_no_method_has_two_rows():
    assert len({(row.sender, row.method) for row in OPERATIONS}) == len(OPERATIONS)


def test_every_member_of_client_params_is_known():
    names = {
        member
        for module in (v2025, v2026)
        for union in ("ClientRequest", "ClientNotification")
        for model in variants(module, union)
        if method(model) != "notifications/tasks/status"
        for member in members_of_params(model)
    }
    assert {"name", "uri", "_meta", "requestState"} <= names <= names_in("params")


def test_the_names_that_headers_mirror_are_the_targets():
    mirrored = {
        row.method: row.name_at
        for row in OPERATIONS
        if Profile.MODERN in row.profiles
        and row.sender is Sender.CLIENT
        and row.kind in {Kind.TOOL, Kind.PROMPT, Kind.RESOURCE}
    }
    assert mirrored == dict(NAME_BEARING_METHODS)


def test_whatever_has_a_target_is_carried_with_policy():
    for found in OPERATIONS:
        if found.form is Form.REQUEST and found.handling is not Handling.REFUSED:
            assert (found.kind is not None) is (found.handling is Handling.CARRIED), found.method


def test_every_list_and_target_needs_a_scope():
    for found in OPERATIONS:
        named = found.name_at is not None and found.form is Form.REQUEST
        if (named or found.lists) and found.kind is not Kind.COMPLETION:
            assert found.scopes, found.method


def test_the_scopes_are_the_contracts():
    assert {scope for found in OPERATIONS for scope in found.scopes} == {
        "tools:list",
        "tools:call",
        "prompts",
        "resources",
    }


@pytest.mark.parametrize(
    "name", ["tasks/result", "tasks/list", "made/up", "", "sampling/createMessage"]
)
def test_unknown_and_refused_methods_are_not_found(name: str):
    assert refused(message(name)) == (200, -32601)
    assert refused(message(name), Profile.MODERN) == (404, -32601)


@pytest.mark.parametrize("name", ["tasks/get", "tasks/update", "tasks/cancel"])
def test_there_are_tasks_in_the_stateless_revisions_alone(name: str):
    asked = message(name, {"taskId": "t"})
    assert refused(asked) == (200, -32601)
    assert judge(asked, Profile.MODERN).scopes == ("tools:call",)
    assert refused(message(name), Profile.MODERN)[1] == -32602


def test_a_method_of_the_other_family_is_not_found():
    assert refused(message("server/discover")) == (200, -32601)
    assert refused(message("ping"), Profile.MODERN) == (404, -32601)
    assert refused(message("initialize"), Profile.MODERN) == (404, -32601)


def test_an_unknown_notification_has_no_answer_to_carry_the_refusal():
    asked = message("notifications/made_up", form=Form.NOTIFICATION)
    assert refused(asked) == (400, -32601)


@pytest.mark.parametrize("profile", Profile)
def test_a_call_without_an_id_is_refused(profile: Profile):
    asked = message("tools/call", {"name": "denied"}, Form.NOTIFICATION)
    assert refused(asked, profile) == (400, -32600)


@pytest.mark.parametrize("profile", Profile)
def test_a_notification_with_an_id_is_refused(profile: Profile):
    assert refused(message("notifications/cancelled"), profile) == (400, -32600)


@pytest.mark.parametrize(
    ("name", "params"),
    [
        ("tools/call", {}),
        ("tools/call", {"name": None}),
        ("tools/call", {"name": ["a"]}),
        ("tools/call", {"name": ""}),
        ("prompts/get", {"uri": "a"}),
        ("resources/read", {"name": "a"}),
        ("completion/complete", {}),
        ("completion/complete", {"ref": "ref/prompt"}),
        ("completion/complete", {"ref": {"type": "ref/prompt", "uri": "a"}}),
        ("completion/complete", {"ref": {"type": "ref/tool", "name": "a"}}),
        ("completion/complete", {"ref": {"type": [], "name": "a"}}),
    ],
)
def test_a_target_is_named(name: str, params: dict[str, Any]):
    assert refused(message(name, params)) == (400, -32602)


@pytest.mark.parametrize("name", ["tools/call", "prompts/get"])
@pytest.mark.parametrize("arguments", [[], "", 0, False, ["a"], "a"])
def test_arguments_are_an_object_or_absent(name: str, arguments: Any):
    assert refused(message(name, {"name": "a", "arguments": arguments})) == (400, -32602)


@pytest.mark.parametrize("profile", Profile)
def test_who_asks_for_a_task_is_let_on(profile: Profile):
    asked = message("tools/call", {"name": "send", "task": {"ttl": 1}})
    assert judge(asked, profile) == row("tools/call")


def test_a_good_request_is_found_with_its_target():
    asked = message("tools/call", {"name": "send"})
    assert judge(asked, Profile.LEGACY) == row("tools/call")
    assert target_name(row("tools/call"), asked.params) == "send"
    assert scopes_of(row("tools/call"), asked.params) == ("tools:call",)


@pytest.mark.parametrize(
    ("ref", "kind", "scope"),
    [
        ({"type": "ref/prompt", "name": "a"}, Kind.PROMPT, "prompts"),
        ({"type": "ref/resource", "uri": "a"}, Kind.TEMPLATE, "resources"),
    ],
)
def test_a_completion_needs_the_scope_of_what_it_completes(
    ref: dict[str, Any], kind: Kind, scope: str
):
    asked = message("completion/complete", {"ref": ref})
    found = judge(asked, Profile.MODERN)
    assert completed(asked.params) == (kind, "a")
    assert target_name(found, asked.params) == "a"
    assert scopes_of(found, asked.params) == (scope,)


def test_listening_to_resources_names_them_and_needs_their_scope():
    asked = message(
        "subscriptions/listen",
        {"notifications": {"toolsListChanged": True, "resourceSubscriptions": ["file:///a"]}},
    )
    found = judge(asked, Profile.MODERN)
    assert subscribed(asked.params) == ("file:///a",)
    assert scopes_of(found, asked.params) == ("resources",)
    assert scopes_of(found, {"notifications": {"toolsListChanged": True}}) == ()


@pytest.mark.parametrize("uris", ["file:///a", [1], [""], {}])
def test_subscriptions_are_a_list_of_uris(uris: Any):
    asked = message("subscriptions/listen", {"notifications": {"resourceSubscriptions": uris}})
    assert refused(asked, Profile.MODERN) == (400, -32602)


def test_a_stream_follows_so_many_resources_and_each_once() -> None:
    wanted = [f"file:///{number}" for number in range(200)]
    found = subscribed({"notifications": {"resourceSubscriptions": wanted}})
    assert found == tuple(wanted)
    assert subscribed({"notifications": {"resourceSubscriptions": ["a", "b", "a"]}}) == ("a", "b")
    asked = message(
        "subscriptions/listen", {"notifications": {"resourceSubscriptions": [*wanted, "one"]}}
    )
    with pytest.raises(ProtocolError, match="at most"):
        judge(asked, Profile.MODERN)


@pytest.mark.parametrize("odd", [1, True, {}, {"said": None}, [[], {}]])
@pytest.mark.parametrize(
    ("method", "params"),
    [
        ("tools/list", lambda said: {"cursor": said}),
        ("resources/templates/list", lambda said: {"cursor": said}),
        ("prompts/get", lambda said: {"name": "a", "arguments": {"x": "y", "z": said}}),
        (
            "completion/complete",
            lambda said: {
                "ref": {"type": "ref/prompt", "name": "a"},
                "argument": {"name": "x", "value": said},
            },
        ),
        (
            "completion/complete",
            lambda said: {
                "ref": {"type": "ref/prompt", "name": "a"},
                "argument": {"name": "x", "value": "y"},
                "context": {"arguments": {"z": said}},
            },
        ),
    ],
)
def test_what_is_a_text_to_the_protocol_is_one(method: str, params: Any, odd: Any) -> None:
    assert judge(message(method, params("text")), Profile.LEGACY).method == method
    assert refused(message(method, params(odd)))[1] == -32602
