"""What a run has read takes no more memory than it is counted for, whatever shape it has."""

import gc
import json
import tracemalloc
from collections.abc import Callable
from typing import Any

import orjson
import pytest

from gateway.domain.labels import Confidentiality, Effect, Integrity, Label
from gateway.flow import carried, provenance
from gateway.flow.carried import Carried
from gateway.flow.provenance import Provenance
from gateway.flow.reading import Answered
from gateway.flow.results import records
from tests.flow.flow_builders import UNTRUSTED, remember, source, structured, wrote

MANY = 2_000
SECRET = Label(integrity=Integrity.UNTRUSTED, confidentiality=Confidentiality.SECRET)
SHAPES: dict[str, Callable[[int], Any]] = {
    "a number": lambda number: number,
    "a code": lambda number: f"{number:05}",
    "an address": lambda number: f"a{number}@b.example",
    "wide letters": lambda number: f"\U0001f600{number}",
    "an empty object": lambda _: {},
    "an object": lambda _: {"": 0},
    "objects in one another": lambda _: {"": {"": []}},
    "a record": lambda number: {"id": f"u{number}", "name": f"Kim {number}", "age": number},
}


def taken(begin: int) -> int:
    gc.collect()
    return tracemalloc.get_traced_memory()[0] - begin


@pytest.fixture
def begin() -> Any:
    """Trace memory, from when what is remembered of all texts has been."""
    looked_at(read(SHAPES["a record"], times=1))
    hides(Provenance(), 100, 10)
    tracemalloc.start()
    gc.collect()
    yield tracemalloc.get_traced_memory()[0]
    tracemalloc.stop()


def read(shape: Callable[[int], Any], *, times: int = 2) -> Provenance:
    found = Provenance()
    for time in range(times):
        said = structured([shape(time * MANY + number) for number in range(MANY)])
        text = json.dumps(said, separators=(",", ":"), ensure_ascii=False)
        result = orjson.loads(text)
        remember(found, source(UNTRUSTED, time), result, octets=len(text.encode()))
    return found


def looked_at(found: Provenance) -> None:
    found.seen("nobody@c.example")
    found.matches("see you tomorrow at nine")


@pytest.mark.parametrize("shape", SHAPES)
def test_what_a_run_has_read_takes_no_more_than_it_is_counted_for(begin: int, shape: str) -> None:
    found = read(SHAPES[shape])
    assert taken(begin) <= found.octets
    looked_at(found)
    assert taken(begin) <= found.octets


@pytest.mark.parametrize("many", [1, 40])
def test_what_is_said_beside_takes_no_more_than_it_is_counted_for(begin: int, many: int) -> None:
    found = Provenance()
    for time in range(100):
        names = [{"name": f"a{time}-{n}@b.example, asked for {n}"} for n in range(many)]
        octets = len(json.dumps(names))
        remember(found, source(UNTRUSTED, time), {"content": names}, octets=octets)
    assert taken(begin) <= found.octets
    looked_at(found)
    assert found.overheard.weight
    assert taken(begin) <= found.octets


def heard(asked: Any) -> Provenance:
    found = Provenance()
    for time in range(30):
        said = Answered(
            source=source(UNTRUSTED, time),
            effect=None,
            arguments=orjson.loads(orjson.dumps({"q": asked})),
            content={"message": f"step {time}"},
            octets=10,
        )
        found.hears(said)
    return found


@pytest.mark.parametrize(
    "asked", ["a" * 1_000_000, "\U0001f600" + "a" * 60_000, "\ufdfa" * 20_000, [*range(10_000)]]
)
def test_what_was_asked_takes_no_more_than_it_is_counted_for(begin: int, asked: Any) -> None:
    found = heard(asked)
    assert taken(begin) <= found.octets
    looked_at(found)
    assert found.overheard.weight
    assert taken(begin) <= found.octets


def test_small_results_count_for_what_is_kept_beside_them(begin: int) -> None:
    found = Provenance()
    for number in range(100):
        remember(found, source(UNTRUSTED, number), structured({"a": number}), octets=9)
    assert taken(begin) <= found.octets
    looked_at(found)
    assert taken(begin) <= found.octets


@pytest.mark.parametrize(
    "texts", [("kim@c.example",), ("a", "b"), tuple(f"{n:05}" for n in range(100))]
)
def test_what_a_led_run_wrote_takes_no_more_than_it_is_counted_for(
    begin: int, texts: tuple[str, ...]
) -> None:
    found = Provenance()
    for number in range(max(50, 500 // len(texts))):
        wrote(found, *(f"{text}{number}" for text in texts))
    assert taken(begin) <= found.octets


def test_items_that_say_nothing_are_no_records() -> None:
    assert [record.whole for record in records([{}, {"a": []}, {"a": "b"}])] == [False, True]


def test_calls_that_carry_nothing_leave_nothing() -> None:
    found = Carried()
    for _ in range(100):
        found.add(())
    assert not found._calls


def test_beyond_so_many_calls_everything_counts_as_carried(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(carried, "_MOST_CALLS", 10)
    found = Carried()
    for _ in range(10):
        found.add(("a letter",))
    before = found.length
    assert not found.has("kim@c.example")
    found.add(("a letter",))
    assert found.has("kim@c.example")
    assert not found.has("kim@c.example", before)


def test_results_that_take_more_memory_are_forgotten_sooner(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(provenance, "_MOST_WEIGHT", 3_000_000)
    found = read(SHAPES["a number"], times=8)
    assert found.seen("1") is None
    assert found.seen(str(8 * MANY - 1)) is not None
    assert found.octets <= 3_000_000


@pytest.mark.parametrize("most", [200_000, 500_000])
def test_what_is_too_much_alone_is_not_kept_and_nobody_knows_what_it_showed(
    monkeypatch: pytest.MonkeyPatch, most: int
) -> None:
    """Before somebody looks at it, or then."""
    monkeypatch.setattr(provenance, "_MOST_WEIGHT", most)
    found = read(SHAPES["a number"], times=1)
    assert found.seen("7") is None
    assert found.octets < 10
    given = {"to": "kim@c.example"}
    remember(found, source(UNTRUSTED), structured("done"), arguments=given, clean=True)
    assert found.proof_of("kim@c.example", "mail") is None


def hides(found: Provenance, many: int, letters: int) -> None:
    """Have a run read so many secrets, each of so many letters, in small results that are forgotten."""
    for number in range(many):
        text = f"password: {'k' * letters}{number:06}"
        said = Answered(
            source=source(SECRET, number),
            effect=Effect.READ,
            arguments={},
            content=structured({"text": text}),
            octets=10**9,
            level=Confidentiality.PRIVATE,
        )
        found.remember(said)


@pytest.mark.parametrize("letters", [10, 1_000])
def test_secrets_count_where_they_are_kept_and_where_they_are_gone_through(
    begin: int, letters: int
) -> None:
    found = Provenance()
    hides(found, 100, letters)
    assert taken(begin) <= found.octets
    assert found.knows_secrets
    assert found.unread(words=False) >= 100 * letters


@pytest.mark.parametrize("letters", [10, 1_000])
def test_of_secrets_that_are_too_many_none_is_kept(begin: int, letters: int) -> None:
    found = Provenance()
    hides(found, 3_000, letters)
    assert not found.knows_secrets
    assert max(found.octets, taken(begin)) <= provenance._MOST_SECRETS_OCTETS
    assert found.unread(words=False) <= provenance._MOST_SECRETS_OCTETS
