"""Of what a server answers or asks no icon goes on that no client may load."""

import json
from collections.abc import Callable
from typing import Any

import pytest

from gateway.wire.in_our_name import hear
from gateway.wire.jsontext import WireLimits

UNSAFE: list[Any] = [
    [{"src": "javascript:alert(1)"}],
    [{"src": "file:///etc/passwd"}],
    [{"src": "http://10.0.0.1/i.png"}],
    [{"src": "https://mail.example/i.png"}, {"src": "JavaScript:alert(1)"}],
    [{}],
    ["https://mail.example/i.png"],
    "https://mail.example/i.png",
    {"src": "https://mail.example/i.png"},
]
SAFE: list[Any] = [[{"src": "https://mail.example/i.png"}, {"src": "data:image/png;base64,AA"}], []]
LINK = {"type": "resource_link", "uri": "mail://a", "name": "a"}


def result(content: Any) -> dict[str, Any]:
    return {"jsonrpc": "2.0", "id": 1, "result": content}


PLACES: list[Callable[[Any], dict[str, Any]]] = [
    lambda icons: result({"content": [{**LINK, "icons": icons}]}),
    lambda icons: result(
        {"content": [{"type": "resource", "resource": {"uri": "a", "text": "t", "icons": icons}}]}
    ),
    lambda icons: result({"contents": [{"uri": "a", "text": "t", "icons": icons}]}),
    lambda icons: result({"messages": [{"role": "user", "content": {**LINK, "icons": icons}}]}),
    lambda icons: result(
        {
            "resultType": "input_required",
            "inputRequests": {
                "q": {
                    "method": "sampling/createMessage",
                    "params": {"messages": [{"role": "user", "content": {**LINK, "icons": icons}}]},
                }
            },
        }
    ),
    lambda icons: {
        "jsonrpc": "2.0",
        "id": 1,
        "method": "sampling/createMessage",
        "params": {"messages": [{"role": "user", "content": [{**LINK, "icons": icons}]}]},
    },
]


def spelled(message: Any) -> list[bytes]:
    """Return the message as it is usually written, and with the name in escapes."""
    plain = json.dumps(message)
    return [plain.encode(), plain.replace('"icons"', '"\\u0069cons"').encode()]


@pytest.mark.parametrize("place", PLACES)
@pytest.mark.parametrize("icons", UNSAFE, ids=str)
def test_one_that_no_client_may_load_is_left_out(place: Any, icons: Any) -> None:
    for data in spelled(place(icons)):
        message = hear(data, WireLimits())
        assert "icons" not in str(message.content)
        assert json.loads(message.data) == message.content
        assert (
            json.loads(json.dumps(place("ICONS")).replace(', "icons": "ICONS"', ""))
            == message.content
        )


@pytest.mark.parametrize("place", PLACES)
@pytest.mark.parametrize("icons", SAFE, ids=str)
def test_any_other_goes_on_as_it_came(place: Any, icons: Any) -> None:
    for data in spelled(place(icons)):
        assert hear(data, WireLimits()).data == data


@pytest.mark.parametrize(
    "content",
    [
        {"content": [], "structuredContent": {"icons": [{"src": "http://10.0.0.1/"}]}},
        {"content": [{"type": "tool_use", "id": "a", "name": "b", "input": {"icons": "none"}}]},
        {"tools": [{"name": "a", "icons": [{"src": "file:///a"}]}]},
    ],
)
def test_what_a_tool_means_by_the_word_is_its_own(content: Any) -> None:
    """Definitions are looked at one by one: that one has such an icon keeps it from its pin."""
    data = json.dumps(result(content)).encode()
    assert hear(data, WireLimits()).data == data


@pytest.mark.parametrize("params", ["null", "7", '"a"', "[]", '{"icons": [{"src": "file:///a"}]}'])
@pytest.mark.parametrize(
    "answer", ['"result":{"tools":[],"a":"\\u0041"}', '"error":{"code":1,"message":"\\u0041"}']
)
def test_an_answer_has_no_params_whatever_they_are(answer: str, params: str) -> None:
    told = f'{{"jsonrpc":"2.0","id":1,{answer}}}'
    message = hear(f'{told[:-1]},"params":{params}}}'.encode(), WireLimits())
    assert message.content == json.loads(told) == json.loads(message.data)
