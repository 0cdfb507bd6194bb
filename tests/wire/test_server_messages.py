"""What an upstream sends is read without ambiguity and rewritten without loss."""

import json
from typing import Any

import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from gateway.domain.calls import Form
from gateway.domain.nodes import MOST_NODES
from gateway.domain.vocabulary import confusing
from gateway.errors import UpstreamFailed
from gateway.wire.jsontext import WireLimits
from gateway.wire.server_message import (
    ServerMessage,
    read_server_message,
    with_items,
    with_member,
)

LIMITS = WireLimits()


def read(text: str | bytes) -> ServerMessage:
    return read_server_message(text.encode() if isinstance(text, str) else text, LIMITS)


def test_a_result_is_read_with_what_nobody_knows():
    content = {
        "jsonrpc": "2.0",
        "x": 1,
        "id": 1,
        "result": {"big": 10**30, "f": 1e3, "n": None, "y": [{}]},
    }
    found = read(json.dumps(content))
    assert found == ServerMessage(form=Form.RESPONSE, method="", id=1, content=content)
    assert (found.result, found.error) == (content["result"], None)


@pytest.mark.parametrize("literal", ["9" * 1025, "1." + "0" * 1024, "1e" + "0" * 1024])
def test_a_number_without_end_is_not_converted(literal):
    with pytest.raises(UpstreamFailed) as refused:
        read(f'{{"jsonrpc":"2.0","id":1,"result":{{"n":{literal}}}}}')
    assert "characters" in str(refused.value.detail)


@pytest.mark.parametrize("item", ["{}", "1e22", '""', '{"a":1}'])
def test_a_message_has_a_bounded_number_of_nodes(item):
    items = ",".join([item] * MOST_NODES)
    with pytest.raises(UpstreamFailed) as refused:
        read(f'{{"jsonrpc":"2.0","id":1,"result":{{"n":[{items}]}}}}')
    assert "values and names" in str(refused.value.detail)


def test_an_error_may_answer_nothing_in_particular():
    found = read('{"jsonrpc":"2.0","id":null,"error":{"code":-32600,"message":"x"}}')
    assert (found.form, found.id) == (Form.RESPONSE, None)
    assert (found.result, found.error) == (None, {"code": -32600, "message": "x"})


def test_a_servers_request_and_notification_are_told_apart():
    request = read('{"jsonrpc":"2.0","id":"s1","method":"elicitation/create","params":{"a":1}}')
    assert (request.form, request.method, request.id) == (Form.REQUEST, "elicitation/create", "s1")
    assert request.params == {"a": 1}
    notice = read('{"jsonrpc":"2.0","method":"notifications/tools/list_changed"}')
    assert (notice.form, notice.id, notice.params) == (Form.NOTIFICATION, None, {})


@pytest.mark.parametrize(
    "text",
    [
        '{"jsonrpc":"2.0","id":1,"result":{}}\n{"jsonrpc":"2.0","id":2,"result":{}}',
        '[{"jsonrpc":"2.0","id":1,"result":{}}]',
        '{"jsonrpc":"2.0","id":1,"result":{},"error":{}}',
        '{"jsonrpc":"2.0","id":1,"method":"x","result":{}}',
        '{"jsonrpc":"2.0","id":1,"method":"x","error":{}}',
        '{"jsonrpc":"2.0","id":1}',
        '{"jsonrpc":"2.0","id":1,"result":[]}',
        '{"jsonrpc":"2.0","id":1,"error":"x"}',
        '{"jsonrpc":"2.0","id":null,"result":{}}',
        '{"jsonrpc":"2.0","result":{}}',
        '{"jsonrpc":"2.0","id":1.5,"result":{}}',
        '{"jsonrpc":"2.0","id":true,"result":{}}',
        '{"jsonrpc":"1.0","id":1,"result":{}}',
        '{"id":1,"result":{}}',
        '{"jsonrpc":"2.0","id":1,"id":2,"result":{}}',
        '{"jsonrpc":"2.0","id":1,"result":{"a":{"b":1,"b":2}}}',
        '{"jsonrpc":"2.0","id":1,"result":{"a":NaN}}',
        '{"jsonrpc":"2.0","id":1,"result":{"a":1e999}}',
        '{"jsonrpc":"2.0","id":1,"result":{"a":"\\ud800"}}',
        '{"jsonrpc":"2.0","id":1,"method":1}',
        '{"jsonrpc":"2.0","id":null,"method":"ping"}',
        '{"jsonrpc":"2.0","method":"x","params":[]}',
        '{"jsonrpc":"2.0","id":1,"result":' + '{"a":' * 70 + "1" + "}" * 70 + "}",
        "",
        "1",
        b"\xff",
        b'\xef\xbb\xbf{"jsonrpc":"2.0","id":1,"result":{}}',
    ],
)
def test_r06_what_is_not_one_clear_message_is_no_answer(text: str | bytes):
    with pytest.raises(UpstreamFailed) as caught:
        read(text)
    assert caught.value.public == "The server sent a malformed message"


@given(st.binary())
def test_any_bytes_are_a_message_or_a_failed_upstream(data: bytes):
    with pytest.raises(UpstreamFailed):
        read(data)


LISTED = (
    '{"x":1,"jsonrpc":"2.0","id":1,"result":{"ttlMs":5,"tools":[{"name":"a"},{"name":"b"}],'
    '"cacheScope":"public","big":123456789012345678901234567890,"f":1e3,"_meta":{"é":null}},"y":[]}'
)


def test_r01_a_filtered_list_keeps_all_else_and_its_order():
    rewritten = with_items(read(LISTED), "tools", ['{"z":1, "name":"a"}', {"name": "c"}])
    assert rewritten.decode() == (
        '{"x":1,"jsonrpc":"2.0","id":1,"result":{"ttlMs":5,"tools":[{"z":1, "name":"a"},'
        '{"name":"c"}],"cacheScope":"private","big":123456789012345678901234567890,'
        '"f":1000.0,"_meta":{"é":null}},"y":[]}'
    )


@pytest.mark.parametrize("scope", ["public", "private", "Public", None])
def test_an_empty_list_is_a_list_and_of_nobody_else(scope: str | None):
    content = {"jsonrpc": "2.0", "id": 1, "result": {"tools": [{}], "cacheScope": scope}}
    rewritten = with_items(read(json.dumps(content)), "tools", [])
    assert json.loads(rewritten)["result"] == {"tools": [], "cacheScope": "private"}


@pytest.mark.parametrize(
    "text",
    [
        '{"jsonrpc":"2.0","id":1,"result":{}}',
        '{"jsonrpc":"2.0","id":1,"result":{"tools":{}}}',
        '{"jsonrpc":"2.0","id":1,"error":{"code":1,"message":"x"}}',
        '{"jsonrpc":"2.0","method":"x"}',
    ],
)
def test_only_a_list_can_be_filtered(text: str):
    with pytest.raises(UpstreamFailed):
        with_items(read(text), "tools", [])


def test_a_result_is_replaced_whole():
    found = read('{"x":0,"jsonrpc":"2.0","id":1,"result":{"a":1}}')
    assert (
        with_member(found, "result", {"b": 2}) == b'{"x":0,"jsonrpc":"2.0","id":1,"result":{"b":2}}'
    )
    with pytest.raises(UpstreamFailed):
        with_member(read('{"jsonrpc":"2.0","id":1,"error":{}}'), "result", {})


JSON: st.SearchStrategy[Any] = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False)
    | st.text(st.characters(exclude_categories=["Cs"])),
    lambda inner: st.lists(inner) | st.dictionaries(st.text(st.characters(exclude_categories=["Cs"])), inner),
    max_leaves=20,
)  # fmt: skip


@given(st.dictionaries(st.text(st.characters(exclude_categories=["Cs"])), JSON))
def test_what_is_rewritten_is_otherwise_the_same(result: dict[str, Any]):
    assume(confusing(result | {"tools": [1]}, "result") is None)
    content = {"jsonrpc": "2.0", "id": 1, "result": result | {"tools": [1]}}
    rewritten = json.loads(with_items(read(json.dumps(content)), "tools", []))
    scope = {"cacheScope": "private"} if "cacheScope" in result else {}
    assert rewritten == content | {"result": result | {"tools": []} | scope}
