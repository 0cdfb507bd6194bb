"""What the protocol has no place for goes nowhere, and the table of members is the SDK's."""

import json
from typing import Any

import mcp_types._v2025_11_25 as v2025
import mcp_types._v2026_07_28 as v2026
import pytest

from gateway.domain.calls import Form, Message
from gateway.errors import ProtocolError
from gateway.wire.fixed import bare, require_fixed
from gateway.wire.jsonrpc import read_message
from gateway.wire.jsontext import WireLimits
from gateway.wire.operations import ABOUT_TASKS
from gateway.wire.outgoing import PARTS, Part
from tests.wire.test_operations import members_of_params, method, variants

FREE = "the merger closes on the ninth"
CLIENT = "io.modelcontextprotocol/clientInfo"
CAPABILITIES = "io.modelcontextprotocol/clientCapabilities"


def message(method: str, params: dict[str, Any], form: Form = Form.REQUEST) -> Message:
    content: dict[str, Any] = {"jsonrpc": "2.0", "method": method, "params": params}
    if form is Form.REQUEST:
        content["id"] = 1
    return read_message(json.dumps(content).encode(), WireLimits())


def test_every_member_that_the_sdk_knows_of_a_clients_message_has_a_row():
    refused = {"tasks/result", "tasks/list"}
    for module in (v2025, v2026):
        for union in ("ClientRequest", "ClientNotification"):
            for model in variants(module, union):
                name = method(model)
                if name in {*refused, "notifications/tasks/status"}:
                    continue
                # A call that asks for a task is refused where the protocol has such calls.
                members = set(members_of_params(model)) - {"task"}
                assert members <= PARTS[name].keys(), name


def test_the_table_has_no_members_that_the_sdk_does_not_know():
    known: dict[str, set[str]] = {}
    for module in (v2025, v2026):
        for union in ("ClientRequest", "ClientNotification"):
            for model in variants(module, union):
                known.setdefault(method(model), set()).update(members_of_params(model))
    for name, members in PARTS.items():
        if name in ABOUT_TASKS:
            continue  # an extension's, which the SDK does not know
        assert members.keys() - {"_meta"} <= known[name], name


STRIPPED = [
    ("ping", {"note": FREE}),
    ("ping", {"_meta": {"com.example/note": FREE}}),
    ("server/discover", {"note": FREE, "_meta": {"x": [FREE]}}),
    ("logging/setLevel", {"level": "info", "note": FREE}),
    ("tools/list", {"filter": FREE}),
    ("initialize", {"note": FREE}),
    ("initialize", {"clientInfo": {"name": "a", "version": "1", "note": FREE}}),
    ("initialize", {"clientInfo": FREE}),
    ("initialize", {"capabilities": {FREE: {}}}),
    ("initialize", {"capabilities": {"roots": {"listChanged": True, "note": FREE}}}),
    ("initialize", {"capabilities": {"sampling": {"tools": {"note": FREE}}}}),
    ("initialize", {"capabilities": {"sampling": FREE}}),
    ("subscriptions/listen", {"notifications": {"note": FREE}}),
    ("subscriptions/listen", {"notifications": {"toolsListChanged": FREE}}),
    ("subscriptions/listen", {"notifications": FREE}),
    ("tools/list", {"_meta": {CLIENT: {"name": "a", "note": FREE}}}),
    ("tools/list", {"_meta": {CAPABILITIES: {"note": FREE}}}),
]
TOLD = [
    ("notifications/cancelled", {"requestId": 1, "reason": FREE}),
    ("notifications/progress", {"progressToken": 1, "progress": 1, "message": FREE}),
    ("notifications/initialized", {"note": FREE}),
    ("notifications/roots/list_changed", {"_meta": {"note": FREE}}),
]


@pytest.mark.parametrize(
    ("method", "params", "form"),
    [(*one, Form.REQUEST) for one in STRIPPED] + [(*one, Form.NOTIFICATION) for one in TOLD],
)
def test_what_the_protocol_has_no_place_for_is_left_out(method, params, form):
    left = bare(message(method, params, form), has_target=False)
    assert FREE not in str(left.params)
    assert FREE.encode() not in left.body
    assert (left.method, left.form, left.id) == (method, form, 1 if form is Form.REQUEST else None)


@pytest.mark.parametrize("about", [FREE, [FREE], 7, True])
@pytest.mark.parametrize("method", ["ping", "tools/call", "notifications/initialized"])
def test_what_is_about_a_message_is_an_object(method, about):
    with pytest.raises(ProtocolError) as caught:
        message(method, {"_meta": about})
    assert caught.value.rpc_code == -32602
    answer = json.dumps({"jsonrpc": "2.0", "id": 1, "result": {"_meta": about}}).encode()
    with pytest.raises(ProtocolError):
        read_message(answer, WireLimits())


@pytest.mark.parametrize("has_target", [True, False])
def test_nothing_about_a_message_is_an_object_without_members(*, has_target):
    left = bare(message("tools/call", {"_meta": None}), has_target=has_target)
    assert (left.params, b"null" in left.body) == ({"_meta": {}}, False)


PLAIN = [
    ("ping", {"_meta": {"progressToken": "p"}}),
    ("initialize", {
        "protocolVersion": "2025-11-25",
        "capabilities": {"roots": {"listChanged": True}, "elicitation": {"form": {}}},
        "clientInfo": {"name": "a", "title": "A", "version": "1", "icons": []},
    }),
    ("subscriptions/listen", {
        "notifications": {"toolsListChanged": True, "resourceSubscriptions": ["a://b"]},
    }),
    ("tools/list", {"cursor": "c", "_meta": {"traceparent": "00", "progressToken": 1}}),
    ("logging/setLevel", {"level": "info"}),
]  # fmt: skip


@pytest.mark.parametrize(("method", "params"), PLAIN)
def test_what_it_has_a_place_for_goes_on_as_it_came(method, params):
    asked = message(method, params)
    assert bare(asked, has_target=False) is asked
    require_fixed(asked)


def test_what_has_a_target_keeps_all_that_is_judged():
    asked = message("tools/call", {"name": "a", "more": FREE, "_meta": {"com.example/note": FREE}})
    assert bare(asked, has_target=True) is asked


@pytest.mark.parametrize(
    ("method", "params"),
    [
        ("logging/setLevel", {"level": FREE}),
        ("logging/setLevel", {"level": ["info"]}),
        ("initialize", {"protocolVersion": FREE}),
        ("tools/list", {"_meta": {"progressToken": FREE * 20}}),
        ("tools/list", {"_meta": {"progressToken": {"a": FREE}}}),
        ("tools/list", {"_meta": {"progressToken": "ü"}}),
        ("tools/list", {"_meta": {"io.modelcontextprotocol/logLevel": FREE}}),
        ("tools/list", {"_meta": {"io.modelcontextprotocol/protocolVersion": [FREE]}}),
        ("tools/call", {"name": "a", "_meta": {"io.modelcontextprotocol/protocolVersion": FREE}}),
        (
            "tools/call",
            {"name": "a", "_meta": {"io.modelcontextprotocol/protocolVersion": "2031-12-24"}},
        ),
        ("tools/call", {"name": "a", "_meta": {"progressToken": [FREE]}}),
    ],
)
def test_what_is_fixed_is_of_its_form(method, params):
    with pytest.raises(ProtocolError) as caught:
        require_fixed(message(method, params))
    assert caught.value.rpc_code == -32602
    assert FREE not in caught.value.public


@pytest.mark.parametrize(
    ("offered", "told"),
    [
        ("2024-11-05", "2024-11-05"),
        ("2025-11-25", "2025-11-25"),
        ("2031-12-24", "2025-11-25"),
        ("2026-07-28", "2025-11-25"),
    ],
)
def test_a_handshake_offers_a_revision_that_is_known(offered, told):
    left = bare(message("initialize", {"protocolVersion": offered}), has_target=False)
    require_fixed(left)
    assert left.params == {"protocolVersion": told}
    assert json.loads(left.body)["params"] == left.params


@pytest.mark.parametrize(
    ("method", "params"),
    [
        ("notifications/cancelled", {"requestId": [FREE]}),
        ("notifications/cancelled", {"requestId": "a" * 257}),
        ("notifications/progress", {"progressToken": {"a": 1}, "progress": 1}),
        ("notifications/progress", {"progressToken": 1, "progress": FREE}),
        ("notifications/progress", {"progressToken": 1, "progress": 1, "total": [FREE]}),
    ],
)
def test_so_is_what_is_fixed_of_a_notification(method, params):
    with pytest.raises(ProtocolError):
        require_fixed(message(method, params, Form.NOTIFICATION))


@pytest.mark.parametrize("rpc_id", ["a" * 257, "ü", "a\nb", "\u2028"])
def test_an_id_is_short_and_printable(rpc_id):
    body = json.dumps({"jsonrpc": "2.0", "method": "ping", "id": rpc_id}).encode()
    with pytest.raises(ProtocolError):
        read_message(body, WireLimits())


def test_nothing_that_is_decided_on_is_only_the_protocols_own():
    """A member that is free text is content, and one of a target's names is no protocol's."""
    texts = {"reason", "message", "arguments", "argument", "context", "cursor", "uri", "name"}
    for members in PARTS.values():
        assert not {name for name in members if members[name] is Part.PROTOCOL} & texts
