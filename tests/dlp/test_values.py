"""What a run was given, and by whom; and that nothing of it grows without end."""

import pytest

from gateway.dlp import values as module
from gateway.dlp.values import RunValues, ValueMemory
from gateway.domain.flow import RunId
from tests.dlp.texts import CARD, KEY


def test_a_value_is_of_the_server_that_gave_it_however_it_is_joined() -> None:
    values = RunValues()
    values.note("bank", [CARD])
    assert values.gave("bank", CARD.replace(" ", "-"))
    assert not values.gave("mail", CARD)
    assert not values.gave("bank", KEY)
    values.note("mail", [CARD])
    assert values.gave("mail", CARD)


def test_of_what_goes_beyond_nobody_is_known_to_have_given_it(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(module, "_MOST_GIVEN", 2)
    values = RunValues()
    values.note("bank", ["1", "2", "3"])
    assert [values.gave("bank", one) for one in "123"] == [True, True, False]


def test_runs_are_apart_and_the_oldest_is_forgotten(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "_MOST_RUNS", 2)
    memory = ValueMemory()
    for name in ("a", "b", "c"):
        run = memory.of(RunId(name))
        run.note("bank", [CARD])
        assert run.token("card", name) == "<CARD:1>"
        memory.keep(RunId(name), run)
    assert [memory.of(RunId(name)).gave("bank", CARD) for name in "abc"] == [False, True, True]
    assert memory.of(RunId("b")).value("<CARD:1>") == "b"


def test_what_it_takes_is_counted() -> None:
    values = RunValues()
    values.note("bank", map(str, range(1000)))
    before = values.octets
    values.token("card", "x" * 10_000)
    assert before >= 100_000
    assert values.octets >= before + 10_000
