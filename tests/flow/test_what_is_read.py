"""How much of a result is read is bounded by what it costs, not by its bytes alone."""

import pytest

from gateway.domain.nodes import MOST_NODES
from gateway.flow.content import LONGEST_READ, content_label
from gateway.flow.decoding import decoded_forms
from gateway.flow.entities import from_html
from gateway.flow.forms import links_in
from gateway.flow.results import documents
from gateway.flow.spellings import spellings, unescaped


def test_a_text_of_too_many_nodes_is_read_as_a_text():
    text = "[" + ",".join(["1"] * (MOST_NODES + 1)) + "]"
    assert list(documents({"content": [{"type": "text", "text": text}]})) == [text]
    shorter = "[1,2]"
    assert list(documents({"content": [{"type": "text", "text": shorter}]})) == [[1, 2]]


def test_a_long_name_before_many_numbers_is_not_repeated_for_ever():
    class Counted(int):
        said = 0

        def __format__(self, spec: str) -> str:
            Counted.said += 1
            return "7"

    name = "n" * (LONGEST_READ // 2)
    _, codes = content_label({name: [Counted(7)] * 100})
    assert codes == ("unread_result",)
    assert Counted.said <= 3


@pytest.mark.parametrize(
    ("reference", "means"),
    [
        ("&#65;", "A"),
        ("&#" + "0" * 5_000 + "65;", "A"),
        ("&#" + "9" * 5_000 + ";", "\ufffd"),
        ("&#" + "0" * 5_000 + ";", "\ufffd"),
        ("&#x" + "0" * 5_000 + "41;", "A"),
        ("&amp;#" + "9" * 8, "&#" + "9" * 8),
    ],
    ids=range(6),
)
def test_a_reference_to_a_character_may_have_any_number_of_digits(
    reference: str, means: str
) -> None:
    assert from_html(f"a {reference} b") == f"a {means} b"
    for read in (spellings, unescaped, decoded_forms, links_in):
        tuple(read(reference + "&;" * 8))
