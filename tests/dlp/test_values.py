"""What a run was given, and by whom; and that nothing of it grows without end."""

from collections.abc import Iterable
from secrets import choice

import pytest

from gateway.dlp import values as module
from gateway.dlp.scanning import Finding
from gateway.dlp.values import RunValues, ValueMemory, keys_of
from gateway.domain.flow import RunId
from tests.dlp.texts import CARD, KEY


def keys(values: Iterable[str]) -> frozenset[bytes]:
    found = Finding(of="card", group="card", path="$", count=1, values=tuple(values))
    return keys_of([found])


def test_a_value_is_of_the_server_that_gave_it_however_it_is_joined() -> None:
    values = RunValues(choice)
    values.note("bank", keys([CARD]))
    assert values.gave("bank", CARD.replace(" ", "-"))
    assert not values.gave("mail", CARD)
    assert not values.gave("bank", KEY)
    values.note("mail", keys([CARD]))
    assert values.gave("mail", CARD)


def test_of_what_goes_beyond_nobody_is_known_to_have_given_it(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(module, "_MOST_GIVEN", 2)
    values = RunValues(choice)
    for one in "123":
        values.note("bank", keys([one]))
    assert [values.gave("bank", one) for one in "123"] == [True, True, False]


def test_runs_are_apart_and_the_oldest_is_forgotten(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "_OCTETS", 4096)
    memory, tokens = ValueMemory(choice), list[str | None]()
    for name in ("a", "b", "c"):
        run = memory.of("emma", RunId(name))
        run.note("bank", keys([CARD]))
        tokens.append(run.token("card", name))
        memory.keep("emma", RunId(name), run)
    runs = [memory.of("emma", RunId(name)) for name in "abc"]
    assert [run.gave("bank", CARD) for run in runs] == [False, True, True]
    assert runs[1].value(str(tokens[1])) == "b"
    # What was forgotten stands for nothing, whatever is given out since.
    assert [run.value(str(tokens[0])) for run in runs] == [None] * 3


def test_whoever_was_given_much_has_nothing_of_another_forgotten(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(module, "_OCTETS", 32 * 1024)
    memory, values = ValueMemory(choice), RunValues(choice)
    values.note("bank", keys([CARD]))
    memory.keep("emma", RunId("r"), values)
    for number in range(100):
        other = memory.of("alice", RunId(f"r{number}"))
        other.note("mail", keys(map(str, range(20))))
        memory.keep("alice", RunId(f"r{number}"), other)
    assert memory.of("emma", RunId("r")).gave("bank", CARD)
    assert not memory.of("alice", RunId("r0")).gave("mail", "1")
    assert memory._runs.octets <= 32 * 1024


def test_numbers_of_tokens_are_drawn_and_none_is_given_out_twice() -> None:
    drawn = iter([100_000, 100_000, 482_913])
    values = RunValues(lambda numbers: numbers[next(drawn) - numbers[0]])
    assert [values.token("card", one) for one in "ab"] == ["<CARD:100000>", "<CARD:482913>"]
    assert [values.value(f"<CARD:{n}>") for n in (100_000, 482_913)] == ["a", "b"]


def test_what_it_takes_is_counted() -> None:
    values = RunValues(choice)
    values.note("bank", keys(map(str, range(1000))))
    before = values.octets
    values.token("card", "x" * 10_000)
    assert before >= 100_000
    assert values.octets >= before + 10_000
