"""One message, read so that nobody behind can read another one."""

import contextlib
import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gateway.domain.calls import Form, Message
from gateway.errors import ProtocolError
from gateway.wire.jsonrpc import read_message
from gateway.wire.jsontext import WireLimits

LIMITS = WireLimits()


def message(text: str | bytes) -> Message:
    return read_message(text.encode() if isinstance(text, str) else text, LIMITS)


def refused(text: str | bytes) -> tuple[int, int, str | int | None]:
    with pytest.raises(ProtocolError) as caught:
        message(text)
    return caught.value.status, caught.value.rpc_code, caught.value.rpc_id


def call(params: str) -> str:
    return f'{{"jsonrpc":"2.0","id":7,"method":"tools/call","params":{params}}}'


def argument(literal: str) -> str:
    return call(f'{{"name":"t","arguments":{{"n":{literal}}}}}')


def test_a_request_is_read_whole():
    text = call('{"name":"allowed","arguments":{"a":[1,2.5,null,"\\u00e9"]}}')
    assert message(text) == Message(
        form=Form.REQUEST,
        method="tools/call",
        id=7,
        params={"name": "allowed", "arguments": {"a": [1, 2.5, None, "é"]}},
        body=text.encode(),
    )


def test_a_notification_has_no_id():
    text = '{"jsonrpc":"2.0","method":"notifications/initialized"}'
    assert message(text) == Message(
        form=Form.NOTIFICATION,
        method="notifications/initialized",
        id=None,
        params={},
        body=text.encode(),
    )


@pytest.mark.parametrize("member", ["result", "error"])
def test_a_response_carries_its_result_or_error_whole(member: str):
    text = f'{{"jsonrpc":"2.0","id":"a","{member}":{{"x":1}}}}'
    assert message(text) == Message(
        form=Form.RESPONSE, method="", id="a", params={"x": 1}, body=text.encode()
    )


@pytest.mark.parametrize(
    "params",
    [
        '{"name":"allowed","Name":"denied","arguments":{}}',
        '{"name":"allowed","ARGUMENTS":{}}',
        '{"name":"allowed","_META":{}}',
        '{"name":"allowed","n\\u0430me":"denied"}',
        '{"ref":{"type":"ref/prompt","name":"allowed","Name":"denied"}}',
        '{"notifications":{"ResourceSubscriptions":["file:///denied"]}}',
    ],
)
def test_p01_a_member_that_differs_only_by_case_or_look_is_refused(params: str):
    assert refused(call(params)) == (400, -32600, 7)


@pytest.mark.parametrize("name", ["param\\u017f", "Params", "\\u212aey", "\uff4dethod", "extra"])
def test_p02_an_envelope_has_no_unknown_members(name: str):
    text = f'{{"jsonrpc":"2.0","id":7,"method":"tools/call","{name}":{{"name":"denied"}},"params":{{"name":"allowed"}}}}'
    assert refused(text) == (400, -32600, 7)


@pytest.mark.parametrize(
    "text",
    [
        call('{"name":"allowed","name":"denied"}'),
        call('{"name":"a","arguments":{"x":{"y":1,"y":2}}}'),
        call('{"name":"allowed","n\\u0061me":"denied"}'),
        '{"jsonrpc":"2.0","id":7,"id":8,"method":"ping"}',
    ],
)
def test_p03_duplicate_members_are_refused_at_any_depth(text: str):
    assert refused(text) == (400, -32700, None)


@pytest.mark.parametrize(
    "literal",
    [
        "9007199254740993",
        "-9007199254740992",
        "9" * 5000,
        "9007199254740993.0",
        "9007199254740993e0",
        "1e999",
        "-1e999",
        "1e-999",
        "0." + "1" * 100,
        "NaN",
        "Infinity",
        "-Infinity",
    ],
)
def test_p04_a_number_that_another_reader_could_see_as_another_is_refused(literal: str):
    assert refused(argument(literal)) == (400, -32700, None)


def test_an_enormous_integer_is_refused_before_it_is_converted():
    with pytest.raises(ProtocolError) as caught:
        message(argument("9" * 100_000))
    assert caught.value.public == "Parse error: an integer is beyond 2^53-1"


@pytest.mark.parametrize(
    ("literal", "number"),
    [
        ("9007199254740991", 2**53 - 1),
        ("-9007199254740991", 1 - 2**53),
        ("6.022e23", 6.022e23),
        ("9007199254740994.0", 9007199254740994.0),
        ("0.1", 0.1),
        ("-0.0e5", 0.0),
        ("1E3", 1000.0),
    ],
)
def test_p04_a_number_that_is_the_same_everywhere_passes(literal: str, number: float):
    assert message(argument(literal)).params["arguments"] == {"n": number}


@pytest.mark.parametrize(
    "text",
    [
        call('{"name":"\\ud800"}'),
        call('{"name":"\\uDFFF x"}'),
        call('{"name":"a","arguments":{"\\udc00":1}}'),
        call('{"name":"@"}').encode().replace(b"@", b"\xed\xa0\x80"),
        call('{"name":"@"}').encode().replace(b"@", b"\xff"),
        b"\xef\xbb\xbf" + call('{"name":"a"}').encode(),
        call('{"name":"a"}').encode("utf-16"),
        b"",
        b"{",
        call('{"name":"a"}') + "{}",
        call('{"name":"a\x00"}'),
        call('{"name":"a",}'),
    ],
)
def test_p11_what_is_not_unicode_or_not_json_is_refused(text: str | bytes):
    assert refused(text) == (400, -32700, None)


@pytest.mark.parametrize("name", ["\\ud83d\\ude00", "\\\\ud800", "\\\\\\\\ud800"])
def test_a_paired_surrogate_or_an_escaped_backslash_passes(name: str):
    assert message(call(f'{{"name":"{name}"}}')).params == {"name": json.loads(f'"{name}"')}


@pytest.mark.parametrize(("opening", "closing"), [("[", "]"), ('{"a":', "}")])
def test_depth_is_bounded_exactly(opening: str, closing: str):
    def nested(levels: int) -> str:
        inside = opening * levels + "1" + closing * levels
        return call(f'{{"name":"a","arguments":{{"x":{inside}}}}}')

    around = 3
    assert message(nested(LIMITS.json_depth - around)).method == "tools/call"
    assert refused(nested(LIMITS.json_depth - around + 1)) == (400, -32700, None)


def test_brackets_in_strings_are_no_depth():
    text = json.dumps("[{" * 500 + '"\\')
    assert message(call(f'{{"name":"a","arguments":{{"x":{text}}}}}')).id == 7


def test_width_is_no_depth():
    text = json.dumps([[] for _ in range(500)])
    assert message(call(f'{{"name":"a","arguments":{{"x":{text}}}}}')).id == 7


@pytest.mark.parametrize("opening", [b"[", b'{"a":', b'"\\"', b'["\\'])
def test_a_deep_or_endless_body_is_refused_without_harm(opening: bytes):
    assert refused(opening * 300_000) == (400, -32700, None)


def test_a_depth_beyond_the_interpreter_is_refused_too():
    with pytest.raises(ProtocolError):
        read_message(b"[" * 50_000 + b"]" * 50_000, WireLimits(json_depth=100_000))


@pytest.mark.parametrize(
    "text", ["[]", '[{"jsonrpc":"2.0","id":1,"method":"ping"}]', "1", "null", '"x"']
)
def test_batches_and_scalars_are_refused(text: str):
    assert refused(text) == (400, -32600, None)


@pytest.mark.parametrize("rpc_id", ["null", "1.5", "1.0", "true", "false", "[]", "{}"])
def test_an_id_is_a_string_or_an_integer(rpc_id: str):
    assert refused(f'{{"jsonrpc":"2.0","id":{rpc_id},"method":"ping"}}') == (400, -32600, None)


@pytest.mark.parametrize("version", ['"1.0"', "2.0", "null", '"2.0 "'])
def test_the_version_is_2_0(version: str):
    assert refused(f'{{"jsonrpc":{version},"id":1,"method":"ping"}}') == (400, -32600, 1)


@pytest.mark.parametrize("params", ["[]", "null", '"x"', "1"])
def test_params_are_an_object(params: str):
    assert refused(call(params)) == (400, -32600, 7)


@pytest.mark.parametrize(
    "members",
    [
        '"method":1,"id":1',
        '"method":"","id":1',
        '"method":"ping","id":1,"result":{}',
        '"method":"ping","id":1,"error":{}',
    ],
)
def test_a_request_has_a_method_and_no_answer(members: str):
    assert refused(f'{{"jsonrpc":"2.0",{members}}}') == (400, -32600, 1)


@pytest.mark.parametrize(
    "members",
    [
        '"id":1',
        '"id":1,"result":{},"error":{}',
        '"id":1,"result":{},"params":{}',
        '"id":1,"result":[]',
        '"id":1,"error":"x"',
    ],
)
def test_a_bad_answer_is_refused_without_its_id_which_is_the_servers(members: str):
    assert refused(f'{{"jsonrpc":"2.0",{members}}}') == (400, -32600, None)


def test_an_answer_has_an_id():
    assert refused('{"jsonrpc":"2.0","error":{}}') == (400, -32600, None)


def test_unknown_params_of_a_vendor_pass():
    assert message(call('{"name":"a","x-vendor":1}')).params == {"name": "a", "x-vendor": 1}


JSON: st.SearchStrategy[Any] = st.recursive(
    st.none() | st.booleans() | st.integers(-(2**53) + 1, 2**53 - 1) | st.text(),
    lambda inner: st.lists(inner) | st.dictionaries(st.text(), inner),
    max_leaves=20,
)
ENVELOPE = st.fixed_dictionaries(
    {},
    optional={
        "jsonrpc": st.just("2.0") | JSON,
        "id": JSON,
        "method": st.text() | JSON,
        "params": JSON,
        "result": JSON,
        "error": JSON,
    },
)


@given(st.binary() | st.text().map(str.encode) | (ENVELOPE | JSON).map(json.dumps).map(str.encode))
def test_any_bytes_are_a_message_or_a_protocol_error(found: bytes):
    with contextlib.suppress(ProtocolError):
        assert message(found).body == found


@given(st.dictionaries(st.text(), JSON))
def test_arguments_are_read_as_they_were_written(arguments: dict[str, Any]):
    text = json.dumps({"name": "t", "arguments": arguments})
    assert message(call(text)).params["arguments"] == arguments


def test_a_name_that_no_request_may_have_is_not_taken_apart(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    asked: list[str] = []
    monkeypatch.setattr("gateway.wire.jsonrpc.confusing", lambda _, shape: asked.append(shape))
    assert refused(call('{"name":"a","\ufdfa":1}'))[2] == 7
    assert asked == []
