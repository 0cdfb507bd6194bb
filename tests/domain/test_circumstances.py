"""What questions have in common is made once, and for nothing else than it was made of."""

from itertools import count

from gateway.domain.question import Circumstances, Question

ASKED = {
    "phase": "call",
    "arguments": {"text": "4711"},
    "context": {"time": "noon", "ip": "192.0.2.7"},
}


def test_a_question_says_what_it_was_made_of() -> None:
    same = Circumstances.of(ASKED)
    assert Question(same, time="noon", arguments={"text": "4711"}) == ASKED
    assert Question(same, time="night", arguments={})["context"]["time"] == "night"
    assert same.sections == {"phase": "call", "context": {"ip": "192.0.2.7"}}


def test_what_is_made_with_something_else_is_made_anew() -> None:
    same = Circumstances.of(ASKED)
    numbers = count()
    made = [same.once("another", of, lambda: next(numbers)) for of in (1, 1, 2, 1)]
    assert made == [0, 0, 1, 2]
    assert same.once("another", 1, lambda: -1) == 2
    assert same.once("other", 1, lambda: -1) == -1


def test_who_changes_a_question_has_one_without_circumstances() -> None:
    asked = Question(Circumstances.of(ASKED), time="noon", arguments={})
    assert not isinstance({**asked, "approval": {}}, Question)
    assert not isinstance(asked | {"approval": {}}, Question)
