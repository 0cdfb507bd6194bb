"""Gateways that share a database go by its clock, and by no machine's of their own."""

import time

import psycopg
import pytest

from gateway.errors import ConfigError
from gateway.storage.postgres.clock import ServerClock, ask
from tests.postgres import Postgres
from tests.storage.placed import emptied, shared

NOON = 1_800_000_000.0


class Elapsed:
    """Seconds that pass when a test says so."""

    def __init__(self) -> None:
        self.s = 1000.0

    def __call__(self) -> float:
        return self.s


@pytest.fixture
def elapsed() -> Elapsed:
    return Elapsed()


def test_what_the_server_said_goes_on_by_seconds_that_nobody_sets(elapsed: Elapsed) -> None:
    clock = ServerClock(elapsed)
    clock.told(NOON, 1000.0, 1000.0)
    elapsed.s += 90
    assert clock() == NOON + 90


def test_of_an_answer_the_middle_of_its_way_is_taken(elapsed: Elapsed) -> None:
    clock = ServerClock(elapsed)
    clock.told(NOON, 998.0, 1000.0)
    assert clock() == NOON + 1


def test_an_answer_that_came_late_moves_nothing(elapsed: Elapsed) -> None:
    clock = ServerClock(elapsed)
    clock.told(NOON, 1000.0, 1000.0)
    elapsed.s += 30
    clock.told(NOON + 10, 1010.0, 1030.0)
    assert clock() == NOON + 30


def test_a_server_whose_clock_differs_is_followed_at_once(elapsed: Elapsed) -> None:
    clock = ServerClock(elapsed)
    for jumped in (600.0, -600.0, 0.3):
        clock.told(NOON, 1000.0, 1000.0)
        clock.told(NOON + jumped, 1000.0, 1000.0)
        assert clock() == pytest.approx(NOON + jumped, abs=1e-6)


def test_nobody_is_told_a_time_that_was_never_asked_for() -> None:
    with pytest.raises(RuntimeError):
        ServerClock()()


def test_a_server_is_asked_and_its_word_is_taken(postgres: Postgres) -> None:
    address = postgres.fresh()
    told: list[tuple[float, float, float]] = []
    before = server_time(address), time.monotonic()
    ask(address, lambda *said: told.append(said))
    after = server_time(address), time.monotonic()
    ((said, began, ended),) = told
    assert before[0] <= said <= after[0]
    assert before[1] <= began <= ended <= after[1]


def test_where_no_server_answers_there_is_no_time() -> None:
    with pytest.raises(ConfigError):
        ask("postgresql://nobody@/none?host=/nowhere", print)


async def test_it_is_told_at_every_look_for_what_others_have_changed(postgres: Postgres) -> None:
    address = emptied(postgres)
    told: list[float] = []
    async with shared(address, told=lambda said, _began, _ended: told.append(said)) as state:
        await state.caught_up()
        assert len(told) == 2
        assert told == sorted(told)
        assert told[1] <= server_time(address)


def server_time(address: str) -> float:
    with psycopg.connect(address) as one:
        ((found,),) = one.execute(
            "SELECT extract(epoch FROM clock_timestamp())::double precision"
        ).fetchall()
    return float(found)
