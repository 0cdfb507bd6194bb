"""What is written as its value is written again is read in one go, and to the same value."""

import json
from typing import Any

import orjson
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from gateway.wire import jsontext
from tests.took import took_s

DEPTH = 40
TEXTS = st.text() | st.sampled_from(
    [
        *("a", "A", "1234567890123456", "\u2028", "\x7f", "é", "\U0001f600", '"', "\\", "/"),
        *(", ", ": ", '", "', '": "', ",  ", "\\, "),
    ]
)
NUMBERS = (
    st.integers(-(2**70), 2**70)
    | st.floats(allow_nan=False, allow_infinity=False)
    | st.sampled_from([0, -0.0, 2**53 - 1, 2**53, 1e23, 1e-7, 5e-324, 1.7976931348623157e308])
)
VALUES: st.SearchStrategy[Any] = st.recursive(
    st.none() | st.booleans() | NUMBERS | TEXTS,
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(TEXTS, inner, max_size=4),
    max_leaves=12,
)
SPELLINGS = st.builds(
    lambda content, spaced, ascii_: json.dumps(
        content, separators=(", ", ": ") if spaced else (",", ":"), ensure_ascii=ascii_
    ).encode("utf-8", "surrogatepass"),
    VALUES,
    st.booleans(),
    st.booleans(),
)
WORDS = st.lists(
    st.sampled_from((
        b'{"a":1,"a":2}', b'{"a": 1, "a": 1}', b'{"a, ": 1}', b", ", b": ", b'", "', b"1e5", b"1E400", b"-0", b"-0.0", b"0.10", b"01", b"NaN", b'"\\ud800"',
        b"[", b"]", b"{", b"}", b",", b":", b'"a"', b"1", b"9007199254740993", b" ", b"\xff",
        b"1e-400", b"1e23", b'"\\u0061"', b"\xef\xbb\xbf", b"9" * 15, b"0." + b"9" * 15,
    )),
    max_size=6,
).map(b"".join)  # fmt: skip


def outcome(text: bytes, *, exact: bool) -> str:
    """Return what comes of a text, with the type of each number."""
    read = jsontext.read_exact if exact else jsontext.read_lenient
    try:
        return repr(read(text, DEPTH))
    except ValueError:
        return "refused"


def _never(_: bytes) -> Any:
    raise ValueError("one by one")


@pytest.mark.parametrize("exact", [True, False])
@settings(max_examples=400, deadline=None)
@given(text=SPELLINGS | WORDS)
@example(text=b'{"a":1,"a":1}')
@example(text=b'{"a": 1, "a": 1}')
@example(text=b'{"a": 1, "b": "a, b: c", "c": [1, 2]}')
@example(text=b'{"a":  1}')
@example(text=b"9007199254740993")
@example(text=b'{"a": 18446744073709551615, "b": 18446744073709551616, "c": 0.30000000000000004}')
@example(text=b'["1234567890123456", 1234567890123456, "x"]')
@example(text=b'["\xed\xa0\x80"]')
@example(text=b"[" * 40 + b"]" * 40)
def test_both_ways_to_read_a_text_come_to_the_same(text: bytes, exact: bool) -> None:
    found = outcome(text, exact=exact)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(orjson, "loads", _never)
        assert found == outcome(text, exact=exact)


def test_what_is_written_with_spaces_is_read_in_one_go(monkeypatch: pytest.MonkeyPatch) -> None:
    said = {"a": [1, 2.5, "b, c: d"], "e": {}}
    monkeypatch.setattr(jsontext, "_EXACT", lambda _: "one by one")
    assert jsontext.read_exact(json.dumps(said, indent=1).encode(), DEPTH) == "one by one"
    assert jsontext.read_exact(json.dumps(said).encode(), DEPTH) == said


def test_a_text_of_any_depth_that_is_allowed_is_read() -> None:
    deep = b"[" * 300 + b"]" * 300
    assert json.dumps(jsontext.read_exact(deep, 400)).encode() == deep


@settings(deadline=None)
@given(content=VALUES)
@example(content=[2**64, -(2**63) - 1, {"a": 10**300, "b": [1e-300]}])
def test_what_is_written_is_read_as_the_same(content: Any) -> None:
    written = jsontext.write(content)
    assert (repr(json.loads(written)), "\n" in written) == (repr(content), False)
    assert jsontext.write_octets(content).decode() == written


@pytest.mark.parametrize("inner", [1, 2**64])
def test_what_nests_as_deep_as_may_be_read_is_written(inner: int) -> None:
    deep: Any = inner
    for level in range(600):
        deep = [deep] if level % 2 else {"a": deep}
    assert jsontext.write(deep) == json.dumps(deep, separators=(",", ":"))


@pytest.mark.parametrize("half", [["\ud800"], {"\ud800": 1}, {"a": 2**64, "b": "\udc00"}])
def test_half_a_surrogate_pair_is_not_written(half: Any) -> None:
    with pytest.raises(ValueError, match="surrogates not allowed"):
        jsontext.write(half)


@pytest.mark.parametrize("beside", [0, 2**64])
def test_numbers_far_from_one_are_written_about_as_soon_as_small_ones(beside: int) -> None:
    """The standard library takes fourteen times as long, in one call in which nobody has a turn."""
    far = [beside, *(1e-300 + at * 1e-303 for at in range(50_000))]
    small = took_s(lambda: json.dumps(list(range(50_000))))
    assert took_s(lambda: jsontext.write(far)) < 4 * small
