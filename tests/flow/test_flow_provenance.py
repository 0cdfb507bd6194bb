from collections.abc import Callable, Iterator, Mapping
from typing import Any

import pytest

from gateway.domain.flow import Match, Payload
from gateway.domain.labels import Effect, ToolRule
from gateway.flow.provenance import Provenance
from gateway.flow.reading import Read
from tests.flow.flow_builders import (
    TRUSTED,
    UNTRUSTED,
    remember,
    reviewed,
    source,
    structured,
    texts,
)

SECRET = "The launch code of the eastern silo is 7391-4482, do not share it."


class Untouchable(Mapping[str, Any]):
    """A result that must not be looked at."""

    def __getitem__(self, key: str) -> Any:
        raise AssertionError(key)

    def __iter__(self) -> Iterator[str]:
        raise AssertionError

    def __len__(self) -> int:
        raise AssertionError


def known(text: str, record: int = 7) -> Provenance:
    provenance = Provenance()
    remember(provenance, source(TRUSTED, record), {"content": [{"type": "text", "text": text}]})
    return provenance


def test_results_are_not_looked_at_until_somebody_asks() -> None:
    provenance = Provenance()
    for _ in range(200):
        remember(provenance, source(TRUSTED), Untouchable(), arguments=Untouchable())
    rule = ToolRule(effect=Effect.READ)
    found = reviewed(Untouchable(), rule=rule, effect=Effect.READ, provenance=provenance)
    assert found.destinations == ()


def test_the_oldest_results_are_forgotten_beyond_a_number() -> None:
    provenance = Provenance(results=2)
    for i in range(3):
        remember(provenance, source(TRUSTED, i), structured([f"value {i}"]))
    assert [provenance.proof_of(f"value {i}", "mail") is None for i in range(3)] == [
        True,
        False,
        False,
    ]
    remember(provenance, source(TRUSTED, 3), structured(["value 3"]))
    assert [provenance.proof_of(f"value {i}", "mail") is None for i in range(4)] == [
        True,
        True,
        False,
        False,
    ]


def test_the_oldest_results_are_forgotten_beyond_a_size() -> None:
    provenance = Provenance(octets=100)
    remember(provenance, source(TRUSTED, 1), structured(["value 1"]), octets=60)
    assert provenance.proof_of("value 1", "mail") is not None
    remember(provenance, source(TRUSTED, 2), structured(["value 2"]), octets=40)
    assert provenance.proof_of("value 1", "mail") is not None
    remember(provenance, source(TRUSTED, 3), structured(["value 3"]), octets=1)
    assert [provenance.proof_of(f"value {i}", "mail") is None for i in (1, 2, 3)] == [
        True,
        False,
        False,
    ]
    remember(provenance, source(TRUSTED, 4), structured(["value 4"]), octets=101)
    assert [provenance.proof_of(f"value {i}", "mail") is None for i in (2, 3, 4)] == [
        False,
        False,
        True,
    ]


def test_what_is_forgotten_is_no_longer_recognised() -> None:
    provenance = Provenance(results=1)
    remember(provenance, source(TRUSTED), structured([SECRET]))
    assert provenance.matches(SECRET) != ()
    remember(provenance, source(TRUSTED), structured(["x"]))
    assert provenance.matches(SECRET) == ()
    assert provenance._payloads.matches(SECRET) == ()


@pytest.mark.parametrize("value", [True, None, {"a": {}}, []])
def test_what_is_neither_text_nor_number_proves_nothing(value: Any) -> None:
    provenance = Provenance()
    remember(provenance, source(TRUSTED), structured({"x": value}), typed=("$.x",))
    assert provenance.proof_of("True", "mail") is provenance.proof_of("None", "mail") is None


def test_a_pattern_reaches_structured_content_and_json_in_text() -> None:
    provenance = Provenance()
    text = '[{"id": 1, "name": "2"}, {"id": 3}]'
    content = {"content": [{"type": "text", "text": text}], "structuredContent": {"id": 4}}
    remember(provenance, source(UNTRUSTED), content, typed=("$[*].id", "$.id"))
    assert [provenance.proof_of(i, "mail") is not None for i in "1234"] == [True, False, True, True]


def test_only_payload_arguments_that_hold_something_known_are_told() -> None:
    arguments = {"subject": "Hi", "body": {"parts": ["new", SECRET]}, "recipients": [SECRET]}
    assert reviewed(arguments, provenance=known(SECRET)).payload == (
        Payload(
            path="$.body.parts[1]",
            matches=(Match(record="r7", kind="exact", bytes=len(SECRET)),),
        ),
    )


def test_a_call_is_compared_up_to_a_size() -> None:
    far = {"subject": "x" * 70_000, "body": SECRET}
    assert reviewed(far, provenance=known(SECRET)).payload == ()
    many = {"body": ["x"] * 200 + [SECRET]}
    assert reviewed(many, provenance=known(SECRET)).payload == ()


WORDS = "Send the notes of Kim to whoever it is"
RESULT = structured({"people": [{"id": "u-7", "name": "Kim", "email": "kim@c.example"}]})


def test_what_nobody_asked_for_yet_is_unread() -> None:
    """Looking at a result is not all of the work that it is."""
    provenance = Provenance()
    remember(provenance, source(UNTRUSTED), RESULT, arguments={"q": "w" * 300}, octets=1000)
    assert provenance.unread(words=False) == 1000
    provenance.seen("nobody@c.example")
    assert provenance.unread(words=False) == 1000 + len("q" + "w" * 300)
    provenance.seen("kim@c.example")
    assert provenance.unread(words=False) == 1000
    provenance.matches("see you tomorrow")
    assert provenance.unread(words=False) == 0


def test_what_no_words_asked_for_yet_is_unread_for_words() -> None:
    provenance = Provenance()
    remember(provenance, source(UNTRUSTED), RESULT, octets=1000)
    provenance.matches("see you tomorrow")
    provenance.seen("kim@c.example")
    looks: tuple[Callable[[Read, str], object], ...] = (
        lambda read, _: read.people,
        lambda read, _: read.records,
        lambda read, _: read.titles,
    )
    for look in looks:
        assert provenance.unread(words=True) == 1000
        provenance.noted(look, WORDS)
    assert provenance.unread(words=True) == provenance.unread(words=False) == 0


def test_what_is_forgotten_is_not_unread() -> None:
    provenance = Provenance(results=1)
    for number in range(3):
        remember(provenance, source(UNTRUSTED, number), RESULT, arguments={"q": "w"}, octets=1000)
        provenance.seen("nobody@c.example")
        assert provenance.unread(words=True) == 1000 + len("qw") + 1000


def test_what_failed_or_was_done_has_no_more_for_words() -> None:
    provenance = Provenance()
    effect = Effect.WRITE
    remember(provenance, source(UNTRUSTED), texts("Kim"), effect=effect, octets=9, failed=True)
    provenance.matches("see you tomorrow")
    assert provenance.unread(words=True) == 0


@pytest.mark.parametrize("words", [False, True])
def test_after_a_question_beside_the_loop_the_next_one_finds_nothing_to_be_made(
    words: bool,
) -> None:
    provenance = Provenance()
    people = [{"id": n, "name": f"Person {n}", "email": f"p{n}@x.example"} for n in range(20)]
    for record in range(3):
        structured = {"structuredContent": {"people": people}}
        remember(provenance, source(TRUSTED, record), structured, arguments={"q": f"all {record}"})
    provenance.lists([{"uri": "file:///a", "name": "a"}])
    assert provenance.unread(words=words) > 0
    provenance.finish(words=words)
    assert provenance.unread(words=words) == 0
