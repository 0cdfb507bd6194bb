"""What a text would build is counted before anything is built."""

import json
from contextlib import suppress

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gateway.domain.nodes import MOST_NODES, amount, require_small, weight

ITEMS = ["1", "1e22", "{}", "[]", '""', "null", "[1]", '{"a":1}', '"\\\\"', '"\\""']
DEPTH = 64


@pytest.mark.parametrize("item", ITEMS)
def test_a_text_of_more_nodes_is_refused(item):
    text = f"[{','.join([item] * (MOST_NODES + 1))}]".encode()
    with pytest.raises(ValueError, match="more than"):
        require_small(text, DEPTH)
    assert weight(text) > MOST_NODES


@pytest.mark.parametrize("item", ITEMS)
def test_a_text_of_fewer_is_read(item):
    require_small(f"[{','.join([item] * (MOST_NODES // 4))}]".encode(), DEPTH)


def test_what_stands_in_strings_is_no_node():
    text = json.dumps({"text": '[{"a": 1, "b": [2, 3]}],\\' * 100_000}).encode()
    require_small(text, DEPTH)


def test_strings_are_counted_before_they_are_told_apart():
    with pytest.raises(ValueError, match="more than"):
        require_small(b'["' + b"," * MOST_NODES + b'"' + b'""' * (MOST_NODES + 1) + b"]", DEPTH)


@pytest.mark.parametrize(
    "text", [b'["', b'"' * 300_001, b"\\" * 300_000, b"[" * 300_000, b'["\\' * 90_000]
)
def test_what_is_no_json_is_told_without_harm(text):
    with suppress(ValueError):
        require_small(text + b"," * MOST_NODES + b"[" * 70, DEPTH)


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(alphabet='a"\\[]{},:é'),
    lambda inner: st.lists(inner) | st.dictionaries(st.text(alphabet='a"\\[{,:'), inner),
)


@given(JSON)
def test_strings_never_hide_depth_and_are_never_taken_for_it(content):
    def depth(node: object) -> int:
        inner = node.values() if isinstance(node, dict) else node if isinstance(node, list) else ()
        return (isinstance(node, dict | list)) + max(map(depth, inner), default=0)

    text = json.dumps(content).encode()
    require_small(text, depth(content))
    if depth(content):
        with pytest.raises(ValueError, match="nested deeper"):
            require_small(text, depth(content) - 1)


@pytest.mark.parametrize("ascii_only", [True, False])
def test_what_is_beyond_ascii_is_more_work(ascii_only):
    """A name of such letters is put into normal forms to be compared: it costs ten times its bytes."""
    names = {"\u7d50" * 100 + str(number): 1 for number in range(200)}
    plain = {"k" * 100 + str(number): 1 for number in range(200)}
    text = json.dumps(names, ensure_ascii=ascii_only).encode()
    assert weight(text) > 5 * weight(json.dumps(plain).encode())
    assert amount(names, 10**9) > 3 * amount(plain, 10**9)
    assert amount("\u7d50" * 80_000, 10**9) == 10_000


class Unspeakable:
    """A name that takes for ever to be written, as one of a program's own can."""

    def __str__(self) -> str:
        raise AssertionError


def test_a_name_that_is_no_text_is_counted_unwritten():
    assert amount({Unspeakable(): 1, 10**5000: 2}, 10**9) == 4
