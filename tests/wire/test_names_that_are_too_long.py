"""No name that a caller chooses is longer than the bound, wherever it stands."""

import json
from typing import Any

import pytest

from gateway.domain.tools import Profile
from gateway.errors import ProtocolError, UpstreamFailed
from gateway.wire.bounds import LONGEST_NAME, NAMES, too_long, within
from gateway.wire.headers import read_headers
from gateway.wire.jsonrpc import read_message
from gateway.wire.jsontext import WireLimits
from gateway.wire.operations import Sender as From
from gateway.wire.operations import find, judge, target_name
from gateway.wire.revisions import read_post
from gateway.wire.server_message import read_server_message
from tests.wire.posts import META, body, headers, modern_headers

LIMITS = WireLimits()
LONGEST = "x" * LONGEST_NAME
LONGER = LONGEST + "x"
WIDE = "\u00e9" * (LONGEST_NAME // 2)


def placed(place: tuple[str, ...], name: str) -> Any:
    """An object with `name` at `place`, as the table spells it."""
    if not place:
        return name
    if place[0] == "#":
        return {name: {}}
    if place[0] == "*":
        return [placed(place[1:], name)]
    return {place[0]: placed(place[1:], name)}


def refused(call: Any) -> ProtocolError:
    with pytest.raises(ProtocolError) as caught:
        call()
    assert "x" * 100 not in caught.value.public
    return caught.value


@pytest.mark.parametrize("place", NAMES, ids=".".join)
def test_every_name_of_the_table_is_bounded(place: tuple[str, ...]):
    assert too_long(placed(place, LONGER)) is not None
    assert too_long(placed(place, LONGEST)) is None


@pytest.mark.parametrize("place", [place for place in NAMES if place != ("#",)], ids=".".join)
@pytest.mark.parametrize("profile", Profile)
def test_a_message_with_a_name_that_is_too_long_is_no_message(
    place: tuple[str, ...], profile: Profile
):
    params = {"name": "allowed", **placed(place, LONGER)}
    error = refused(lambda: judge(read_message(body("tools/call", params), LIMITS), profile))
    assert (error.status, error.rpc_code, error.rpc_id) == (400, -32602, 1)


@pytest.mark.parametrize(
    ("method", "params"),
    [
        ("tools/call", {"name": LONGER}),
        ("prompts/get", {"name": LONGER}),
        ("resources/read", {"uri": "file:///" + LONGER}),
        ("resources/subscribe", {"uri": "file:///" + LONGER}),
        ("tools/list", {"cursor": LONGER}),
        ("completion/complete", {"ref": {"type": "ref/prompt", "name": LONGER}}),
        ("completion/complete", {"ref": {"type": "ref/resource", "uri": LONGER}}),
    ],
)
def test_it_is_refused_before_anybody_is_asked(method: str, params: dict[str, Any]):
    pairs = headers(mcp_protocol_version="2025-11-25")
    refused(lambda: read_post(pairs, body(method, params), LIMITS))
    name = params.get("name") or params.get("uri")
    pairs = modern_headers(method, name)
    refused(lambda: read_post(pairs, body(method, {**params, "_meta": META}), LIMITS))


def test_what_is_bounded_is_bytes_not_characters():
    assert within(WIDE)
    assert not within(WIDE + "\u00e9")


def test_an_escaped_name_is_measured_as_it_is_meant():
    escaped = json.dumps({"name": WIDE + "\u00e9"}).encode()
    text = b'{"jsonrpc":"2.0","id":1,"method":"tools/call","params":' + escaped + b"}"
    refused(lambda: judge(read_message(text, LIMITS), Profile.LEGACY))


@pytest.mark.parametrize("members", [{"id": LONGER}, {"method": LONGER}])
def test_neither_the_id_nor_the_method_is_any_longer(members: dict[str, Any]):
    text = body("ping", {}) if not members else body(**{"method": "ping", **members})
    error = refused(lambda: read_message(text, LIMITS))
    assert error.rpc_id in {None, 1}


def test_a_response_has_no_longer_id():
    text = json.dumps({"jsonrpc": "2.0", "id": LONGER, "result": {}}).encode()
    assert refused(lambda: read_message(text, LIMITS)).rpc_id is None


@pytest.mark.parametrize(
    "name", ["mcp-session-id", "last-event-id", "mcp-method", "mcp-protocol-version", "tracestate"]
)
def test_a_header_that_is_a_name_is_bounded(name: str):
    assert read_headers([(name, LONGEST)]).fields.get(name) == LONGEST
    refused(lambda: read_headers([(name, LONGER)]))


def test_a_name_that_a_header_spells_in_base64_may_be_as_long_as_in_the_body():
    assert read_headers([("mcp-name", LONGEST + LONGEST)]).fields.get("mcp-name") is not None
    refused(lambda: read_headers([("mcp-name", LONGEST + LONGER)]))


def test_the_name_of_a_target_is_bounded_wherever_the_message_is_from():
    row = find(From.CLIENT, "resources/read")
    assert row is not None
    refused(lambda: target_name(row, {"uri": LONGER}))
    row = find(From.CLIENT, "completion/complete")
    assert row is not None
    refused(lambda: target_name(row, {"ref": {"type": "ref/resource", "uri": LONGER}}))


@pytest.mark.parametrize("members", [{"id": LONGER}, {"method": LONGER}])
def test_a_server_chooses_no_longer_ones(members: dict[str, Any]):
    text = json.dumps({"jsonrpc": "2.0", "id": 1, "method": "ping", **members}).encode()
    with pytest.raises(UpstreamFailed):
        read_server_message(text, LIMITS)
