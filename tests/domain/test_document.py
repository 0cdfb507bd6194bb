import json
import struct
from typing import Any

import pytest
import rfc8785
from hypothesis import given
from hypothesis import strategies as st

from gateway.domain.document import (
    DEEPEST,
    Digest,
    Document,
    canonical,
    equal,
    leaves,
    member_path,
)

SAFE_INTEGERS = st.integers(min_value=-(2**53) + 1, max_value=2**53 - 1)
PLAIN_SCALARS = st.none() | st.booleans() | SAFE_INTEGERS | st.text()
SCALARS = PLAIN_SCALARS | st.floats(allow_nan=False, allow_infinity=False)
ASCII_KEYS = st.text(st.characters(max_codepoint=127))


def trees(scalars: st.SearchStrategy[Any], keys: st.SearchStrategy[str]) -> st.SearchStrategy[Any]:
    return st.recursive(scalars, lambda x: st.lists(x) | st.dictionaries(keys, x), max_leaves=20)


@given(trees(PLAIN_SCALARS, ASCII_KEYS))
def test_the_fast_path_gives_the_rfcs_form(content: Any) -> None:
    assert canonical(content) == rfc8785.dumps(content)


@given(trees(SCALARS, st.text()))
def test_every_value_has_the_rfcs_form(content: Any) -> None:
    assert canonical(content) == rfc8785.dumps(content)


@given(trees(PLAIN_SCALARS | st.floats(min_value=-(2**52), max_value=2**52), st.text()))
def test_the_canonical_form_says_the_same_and_is_its_own_canonical_form(content: Any) -> None:
    form = canonical(content)
    assert json.loads(form) == content
    assert canonical(json.loads(form)) == form


NEAR = st.sampled_from(
    [None, False, True, 0, -0.0, 1, 1.0, 1.5, 2**53 - 1, 2.0**53 - 1, 1e16, "", "1", "e\u0301", "\u00e9"]
)  # fmt: skip
NEARLY = trees(NEAR, st.sampled_from(["a", "b", "\u00e9"]))


@given(NEARLY | st.lists(NEAR, max_size=1), NEARLY | st.lists(NEAR, max_size=1))
def test_values_are_equal_if_their_canonical_forms_are(one: Any, other: Any) -> None:
    assert equal(one, other) is (canonical(one) == canonical(other))
    assert equal(one, json.loads(canonical(one)))


def test_every_character_is_spelled_as_the_rfc_says() -> None:
    for code in (*range(0x2100), 0xD7FF, 0xE000, 0xFFFE, 0xFFFF, 0x10000, 0x10FFFF):
        assert canonical(chr(code)) == rfc8785.dumps(chr(code))


@pytest.mark.parametrize(
    ("bits", "expected"),
    [
        (0x0000000000000000, "0"),
        (0x8000000000000000, "0"),
        (0x0000000000000001, "5e-324"),
        (0x8000000000000001, "-5e-324"),
        (0x7FEFFFFFFFFFFFFF, "1.7976931348623157e+308"),
        (0x4340000000000000, "9007199254740992"),
        (0xC340000000000000, "-9007199254740992"),
        (0x4430000000000000, "295147905179352830000"),
        (0x44B52D02C7E14AF5, "9.999999999999997e+22"),
        (0x44B52D02C7E14AF6, "1e+23"),
        (0x444B1AE4D6E2EF4E, "999999999999999700000"),
        (0x444B1AE4D6E2EF50, "1e+21"),
        (0x3EB0C6F7A0B5ED8C, "9.999999999999997e-7"),
        (0x3EB0C6F7A0B5ED8D, "0.000001"),
        (0x41B3DE4355555555, "333333333.3333333"),
    ],
)
def test_floats_are_spelled_as_ecmascript_does(bits: int, expected: str) -> None:
    """RFC 8785 appendix B."""
    (number,) = struct.unpack(">d", bits.to_bytes(8, "big"))
    assert canonical([number]) == f"[{expected}]".encode()


def test_keys_are_sorted_by_utf_16_code_units() -> None:
    """RFC 8785 section 3.2.3: the astral U+1F600 begins with D83D and goes before U+FB33."""
    keys = ["\u20ac", "\r", "\ufb33", "1", "\U0001f600", "\u0080", "\u00f6"]
    assert list(json.loads(canonical(dict.fromkeys(keys)))) == [
        *("\r", "1", "\u0080", "\u00f6", "\u20ac", "\U0001f600", "\ufb33")
    ]


@pytest.mark.parametrize(
    "bad",
    [2**53, -(2**53), float("nan"), float("inf"), -float("inf"), "\ud800", {"\udc00": 1}, b"", {1}],
)
@pytest.mark.parametrize("beside", [{}, {"f": 1.5}, {"\u00e9": 1}])
def test_what_readers_disagree_on_has_no_canonical_form(bad: Any, beside: dict[str, Any]) -> None:
    with pytest.raises(ValueError, match="no canonical form"):
        canonical({**beside, "z": [bad]})


@pytest.mark.parametrize("bad", [{1: 2}, {None: 1}, (2**53,)])
def test_what_no_json_is_has_no_canonical_form(bad: Any) -> None:
    with pytest.raises(ValueError, match="no canonical form"):
        canonical(bad)


@pytest.mark.parametrize("scalar", [1, 1.5])
def test_nesting_has_a_limit(scalar: Any) -> None:
    content = scalar
    for _ in range(DEEPEST):
        content = [content]
    assert canonical(content).startswith(b"[[[")
    with pytest.raises(ValueError, match="deeper"):
        canonical({"\u00e9": content})


def test_documents_are_equal_when_they_mean_the_same() -> None:
    one, other = Document('{"a": 1.0, "b": "\\u0078"}'), Document('{"b":"x","a":1e0}')
    assert (one == other, hash(one) == hash(other), one.digest == other.digest) == (True,) * 3
    assert one != Document('{"a": 1, "b": "y"}')
    assert one != '{"a": 1, "b": "x"}'
    assert Document('{"a": -0}') == Document('{"a": 0}')


def test_unicode_is_not_normalised() -> None:
    assert Document.of({"a": "\u00e9"}) != Document.of({"a": "e\u0301"})


def test_a_document_keeps_members_in_order() -> None:
    document = Document.of({"b": 1, "a": {"\u00e9": [None]}})
    assert (document.text, document.canonical) == (
        '{"b":1,"a":{"\u00e9":[null]}}',
        '{"a":{"\u00e9":[null]},"b":1}'.encode(),
    )
    assert Document(document.text) == document


@pytest.mark.parametrize(
    "text",
    [
        '{"a": 1, "a": 1}',
        '{"x": {"a": 1, "\\u0061": 2}}',
        '{"a": NaN}',
        '{"a": -Infinity}',
        "[]",
        "null",
        '{"a": }',
        '{"a":' + "[" * 100_000 + "]" * 100_000 + "}",
    ],
)
def test_a_text_that_is_not_one_plain_object_is_refused(text: str) -> None:
    with pytest.raises(ValueError, match=r"."):
        _ = Document(text).content


@pytest.mark.parametrize("bad", [{"a": 2**53}, {"a": "\ud800"}, {"a": float("nan")}])
def test_a_document_without_canonical_form_cannot_be_made(bad: dict[str, Any]) -> None:
    with pytest.raises(ValueError, match="no canonical form"):
        Document.of(bad)


def test_a_digest_names_its_algorithm() -> None:
    empty = Digest.of(b"")
    assert str(empty) == f"sha256:{empty.octets.hex()}"
    assert empty.octets.hex().startswith("e3b0c44298fc1c14")
    assert repr(Document("{}")).startswith("Document(sha256:44136fa355b3678a")


def test_leaves_come_in_order_with_their_paths() -> None:
    content = {"to": ["a", {"b": 1}], "c": None, "x y": {"a@b.c": True}, "d'\\": []}
    assert list(leaves(content)) == [
        ("$.to[0]", "a"),
        ("$.to[1].b", 1),
        ("$.c", None),
        ("$['x y']", "x y"),
        ("$['x y']['a@b.c']", "a@b.c"),
        ("$['x y']['a@b.c']", True),
        ("$['d\\'\\\\']", "d'\\"),
    ]
    assert list(leaves("x", "$.y")) == [("$.y", "x")]


@given(st.text(), st.text())
def test_different_members_have_different_paths(one: str, other: str) -> None:
    assert (member_path("$", one) == member_path("$", other)) is (one == other)


def test_leaves_of_something_deep_or_wide_cost_only_what_is_asked_for() -> None:
    deep: Any = "x"
    for _ in range(50_000):
        deep = [deep]
    assert next(leaves([["first"], [0] * 10, deep])) == ("$[0][0]", "first")


def test_a_path_does_not_grow_with_what_it_leads_through() -> None:
    content: Any = ["x"] * 3
    for _ in range(60):
        content = {"n" * 5000: content}
    paths = [path for path, leaf in leaves(content) if leaf == "x"]
    assert len(paths) == 3
    assert all(len(path) < 1000 and path.endswith("\u2026") for path in paths)
    assert member_path("$", "x" * 300) == "$['" + "x" * 256 + "\u2026']"
