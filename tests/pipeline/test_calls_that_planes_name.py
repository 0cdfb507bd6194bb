"""Which call a plane's question is about: nothing is guessed, and nothing else of it is read."""

from dataclasses import replace
from typing import Any

import pytest

from gateway.domain.calls import CallId, OriginKind
from gateway.domain.planes import ForeignType, Plane
from gateway.domain.tools import Profile, UpstreamId
from gateway.errors import Denied, ProtocolError
from gateway.pipeline.plane_calls import call_of
from gateway.wire.authzen import Entity, Evaluation

MAIL = UpstreamId("mail")
PLANE = Plane(
    name="edge",
    key_digest=b"",
    servers={"m": MAIL, "f": UpstreamId("files")},
    issuers=("https://idp.example",),
    vouches=True,
    groups_property="roles",
    scopes=frozenset(),
    types={"record": ForeignType(server=MAIL, actions={"read": "read_record"})},
)
TOOL = Entity(type="tool", id="send", properties={"server": "m"})
ASKED = Evaluation(
    subject=Entity(type="identity", id="alice", properties={"roles": ["users"]}),
    action="tools/call",
    action_properties={},
    resource=TOOL,
    arguments={"to": "bob"},
    agent="assistant",
)


def call(asked: Evaluation, plane: Plane = PLANE, profile: Profile = Profile.MODERN) -> Any:
    return call_of(plane, asked, lambda _: profile, id_=CallId("c"), source_ip="192.0.2.1")


def test_a_question_is_the_call_that_it_is_about() -> None:
    found = call(ASKED)
    assert (found.server, found.origin, found.profile) == ("mail", OriginKind.PLANE, Profile.MODERN)
    assert found.message.params == {"name": "send", "arguments": {"to": "bob"}}
    assert b'"arguments":{"to":"bob"}' in found.message.body
    said = found.credential
    assert (said.plane, said.subject, said.client_id) == ("edge", "alice", "assistant")
    assert said.groups == {"users"}
    assert said.server == MAIL


@pytest.mark.parametrize(
    ("action", "type_", "params"),
    [
        ("prompts/get", "prompt", {"name": "send", "arguments": {"to": "bob"}}),
        ("resources/read", "resource", {"uri": "send"}),
        ("resources/subscribe", "resource", {"uri": "send"}),
        (
            "completion/complete",
            "prompt",
            {"ref": {"type": "ref/prompt", "name": "send"}, "argument": {"to": "bob"}},
        ),
        (
            "completion/complete",
            "resource",
            {"ref": {"type": "ref/resource", "uri": "send"}, "argument": {"to": "bob"}},
        ),
    ],
)
def test_each_method_has_its_own_params(action: str, type_: str, params: dict[str, Any]) -> None:
    asked = replace(ASKED, action=action, resource=replace(TOOL, type=type_))
    assert call(asked).message.params == params


def test_a_task_that_is_told_is_declared_and_goes_no_further() -> None:
    found = call(replace(ASKED, task={"prompt": "Write to bob.", "tools": ["send"]}))
    assert (found.declared.prompt, found.declared.tools) == ("Write to bob.", ("send",))
    assert b"Write to bob" not in found.message.body
    assert call(replace(ASKED, task={"prompt": 7})).declared is None


@pytest.mark.parametrize(
    "method", ["initialize", "ping", "server/discover", "tools/list", "resources/templates/list"]
)
def test_what_is_about_a_server_names_it_as_the_resource(method: str) -> None:
    server = Entity(type="mcp_server", id="f", properties={})
    found = call(replace(ASKED, action=method, resource=server, arguments=None))
    assert (found.server, found.message.params) == ("files", {})


def test_a_revision_decides_the_family_and_else_where_the_server_is_known() -> None:
    assert call(ASKED, profile=Profile.LEGACY).revision == "2025-11-25"
    assert call(ASKED).revision == "2026-07-28"
    found = call(replace(ASKED, revision="2025-06-18"))
    assert (found.revision, found.profile) == ("2025-06-18", Profile.LEGACY)


def test_a_type_that_is_not_mcps_stands_for_tools() -> None:
    record = Entity(type="record", id="r-1", properties={"status": "archived", "id": "r-2"})
    soft = {"soft": True}
    asked = replace(ASKED, action="read", resource=record, action_properties=soft, arguments=None)
    found = call(asked)
    assert found.message.method == "tools/call"
    assert found.message.params == {
        "name": "read_record",
        "arguments": {"status": "archived", "soft": True, "id": "r-1"},
    }
    told = call(replace(asked, arguments={"to": "bob"}))
    assert told.message.params == {"name": "read_record", "arguments": {"to": "bob"}}


@pytest.mark.parametrize(
    ("change", "code"),
    [
        ({"arguments": None}, "arguments_missing"),
        ({"agent": ""}, "unknown_client"),
        ({"revision": "2031-01-01"}, "unknown_revision"),
        ({"resource": replace(TOOL, properties={})}, "unknown_server"),
        ({"resource": replace(TOOL, properties={"server": "mail"})}, "unknown_server"),
        ({"resource": replace(TOOL, properties={"server": ["m"]})}, "unknown_server"),
        ({"resource": replace(TOOL, type="record")}, "unknown_action"),
        ({"action": "tasks/get"}, "unknown_action"),
        ({"action": "notifications/cancelled"}, "unknown_action"),
        ({"subject": Entity(type="robot", id="a", properties={})}, "unknown_subject"),
        (
            {"subject": Entity(type="user", id="a", properties={"iss": "https://other.example"})},
            "unknown_subject",
        ),
    ],
)
def test_what_is_not_said_is_not_guessed(change: dict[str, Any], code: str) -> None:
    with pytest.raises(Denied) as refused:
        call(replace(ASKED, **change))
    assert refused.value.reasons[0][0] == code


@pytest.mark.parametrize("properties", [{"iss": 7}, {"roles": 7}, {"roles": ["users", 7]}])
def test_what_is_read_has_its_own_type(properties: dict[str, Any]) -> None:
    subject = Entity(type="identity", id="alice", properties=properties)
    with pytest.raises(ProtocolError):
        call(replace(ASKED, subject=subject))


def test_of_several_issuers_one_is_named() -> None:
    several = replace(PLANE, issuers=(*PLANE.issuers, "https://other.example"))
    with pytest.raises(ProtocolError):
        call(ASKED, several)
    named = Entity(type="user", id="alice", properties={"iss": "https://other.example"})
    assert call(replace(ASKED, subject=named), several).credential.issuer == "https://other.example"


def test_groups_count_only_where_the_configuration_says_who_tells_them() -> None:
    assert call(ASKED, replace(PLANE, groups_property="")).credential.groups == frozenset()


def test_one_client_and_one_server_need_no_name() -> None:
    single = replace(PLANE, servers={"m": MAIL}, client="cron")
    found = call(replace(ASKED, agent="other", resource=replace(TOOL, properties={})), single)
    assert (found.server, found.credential.client_id) == ("mail", "cron")
