"""What is declared beyond the core of the protocol is left out unless it is approved."""

import json
from typing import Any

import pytest

from gateway.domain.calls import Form, Message
from gateway.domain.tools import Profile
from gateway.errors import ProtocolError
from gateway.wire.extensions import TASKS, UI, approved_only, within
from gateway.wire.jsonrpc import read_message
from gateway.wire.jsontext import WireLimits

CAPABILITIES = "io.modelcontextprotocol/clientCapabilities"
CORE: dict[str, Any] = {"roots": {"listChanged": True}, "elicitation": {"url": {}}}
MORE: dict[str, Any] = {
    **CORE,
    "tasks": {"requests": {}},
    "extensions": {UI: {"mimeTypes": ["text/html;profile=mcp-app"]}, TASKS: {}, "x.example/y": {}},
    "experimental": {"x.example/y": {}, "z": {}},
}


def read(method: str, params: dict[str, Any], **more: Any) -> Message:
    body = {"jsonrpc": "2.0", "id": 1, "method": method, "params": params, **more}
    return read_message(json.dumps(body).encode(), WireLimits())


def hello(capabilities: Any) -> Message:
    return read("initialize", {"protocolVersion": "2025-11-25", "capabilities": capabilities})


def stateless(capabilities: Any) -> Message:
    meta = {"douane/run": "r", CAPABILITIES: capabilities}
    return read("tools/call", {"name": "send", "arguments": {"n": 1.0}, "_meta": meta})


def test_nothing_is_approved_by_itself():
    assert approved_only(MORE, frozenset()) == {**CORE, "extensions": {}, "experimental": {}}


def test_what_is_approved_stays_as_it_is():
    assert approved_only(MORE, frozenset({UI, "z"})) == {
        **CORE,
        "extensions": {UI: MORE["extensions"][UI]},
        "experimental": {"z": {}},
    }


def test_tasks_are_approved_as_an_extension_and_never_as_a_capability():
    kept = approved_only(MORE, frozenset({UI, TASKS, "tasks"}))
    assert (kept.keys() & {"tasks"}, kept["extensions"].keys()) == (set(), {UI, TASKS})


@pytest.mark.parametrize("profile", list(Profile))
def test_what_means_something_in_one_family_alone_is_narrowed_in_both(profile: Profile):
    """A name of an extension is a text of its caller's, whoever reads it."""
    told = within(stateless(MORE), profile, frozenset({UI}))
    assert told.params["_meta"][CAPABILITIES]["extensions"].keys() == {UI}
    assert b"x.example" not in told.body
    begun = read("initialize", {"capabilities": MORE, "_meta": {CAPABILITIES: MORE}})
    told = within(begun, profile, frozenset({UI}))
    assert b"x.example" not in told.body


def test_tasks_are_of_the_stateless_revisions_alone():
    approved = frozenset({UI, TASKS})
    kept = within(hello(MORE), Profile.LEGACY, approved).params["capabilities"]
    assert kept["extensions"].keys() == {UI}
    kept = within(stateless(MORE), Profile.MODERN, approved).params["_meta"][CAPABILITIES]
    assert kept["extensions"].keys() == {UI, TASKS}


@pytest.mark.parametrize(
    "name", ["Tasks", "TASKS", "ta\u017fks", "Extensions", "exten\u017fions", "EXPERIMENTAL"]
)
def test_a_name_that_a_loose_reader_takes_for_one_of_these_is_left_out(name: str):
    assert approved_only({**CORE, name: {UI: {}}}, frozenset({UI})) == CORE


@pytest.mark.parametrize("settings", [None, [], "x", True, 1])
def test_settings_that_are_no_object_declare_nothing(settings: Any):
    assert approved_only({"extensions": settings}, frozenset({UI})) == {"extensions": {}}
    assert approved_only(settings, frozenset({UI})) == {}


def test_capabilities_of_the_core_pass_untouched():
    quiet = {**CORE, "experimental": {}, "extensions": {}}
    assert approved_only(quiet, frozenset()) is quiet


@pytest.mark.parametrize("profile", Profile)
def test_a_message_that_declares_nothing_more_keeps_its_bytes(profile: Profile):
    for message in (hello(CORE), stateless(CORE), read("ping", {})):
        assert within(message, profile, frozenset()) is message


def test_a_handshake_declares_only_what_is_approved():
    before = hello(MORE)
    after = within(before, Profile.LEGACY, frozenset({UI}))
    kept = {**CORE, "extensions": {UI: MORE["extensions"][UI]}, "experimental": {}}
    assert after.params == {"protocolVersion": "2025-11-25", "capabilities": kept}
    assert json.loads(after.body) == {**json.loads(before.body), "params": after.params}
    assert (after.form, after.method, after.id) == (Form.REQUEST, "initialize", 1)


def test_every_stateless_request_declares_only_what_is_approved():
    before = stateless(MORE)
    after = within(before, Profile.MODERN, frozenset())
    assert after.params["_meta"] == {
        "douane/run": "r",
        CAPABILITIES: {**CORE, "extensions": {}, "experimental": {}},
    }
    assert json.loads(after.body) == {**json.loads(before.body), "params": after.params}
    assert b'"n":1.0' in after.body


def test_what_is_sent_on_is_what_was_read_of_it():
    after = within(stateless(MORE), Profile.MODERN, frozenset())
    assert read_message(after.body, WireLimits()) == after


def test_a_notification_stays_one():
    body = {"jsonrpc": "2.0", "method": "notifications/cancelled", "params": {"requestId": 1}}
    body["params"]["_meta"] = {CAPABILITIES: MORE}  # type: ignore[index]
    message = read_message(json.dumps(body).encode(), WireLimits())
    after = within(message, Profile.MODERN, frozenset())
    assert (after.form, "id" in json.loads(after.body)) == (Form.NOTIFICATION, False)


def test_capabilities_elsewhere_are_a_vendors_own():
    message = read("tools/call", {"name": "send", "capabilities": MORE})
    assert within(message, Profile.LEGACY, frozenset()) is message


@pytest.mark.parametrize("besides", [{}, {CAPABILITIES: CORE}])
def test_another_spelling_of_the_member_itself_is_refused(besides: dict[str, Any]):
    meta = {"a": 1, CAPABILITIES.replace("client", "Client"): MORE, **besides}
    with pytest.raises(ProtocolError):
        read("tools/call", {"_meta": meta})
