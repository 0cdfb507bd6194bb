"""How much of a result is read is bounded by what it costs, not by its bytes alone."""

from gateway.domain.nodes import MOST_NODES
from gateway.flow.content import LONGEST_READ, content_label
from gateway.flow.results import documents


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
