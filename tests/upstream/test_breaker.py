"""When an upstream that fails is left alone, for whom, and when it is tried again."""

from dataclasses import replace

import pytest

from gateway.domain.identity import Principal
from gateway.domain.tools import UpstreamId
from gateway.errors import UpstreamResting
from gateway.upstream.breaker import Breaker, Patience
from tests.pipeline.house import ALICE

BOB = replace(ALICE, subject="bob")
ELSEWHERE = replace(ALICE, client_id="another")
"""Alice, through a client of another endpoint."""


class Clock:
    def __init__(self) -> None:
        self.now = 100.0

    def __call__(self) -> float:
        return self.now


@pytest.fixture
def clock() -> Clock:
    return Clock()


def breaker_at(
    clock: Clock, *, failures: int = 3, rest_s: float = 1.0, jitter: float = 0.0
) -> Breaker:
    patience = Patience(failures=failures, rest_s=rest_s)
    return Breaker(UpstreamId("mail"), patience, clock=clock, jitter=lambda: jitter)


def fails(breaker: Breaker, times: int, who: Principal | None = ALICE) -> None:
    for _ in range(times):
        breaker.failed(who, breaker.admit(who), "status 503")


def refusal(breaker: Breaker, who: Principal | None = ALICE) -> str:
    """Return what a call is refused with; empty if it is let through, and left."""
    try:
        breaker.left(breaker.admit(who))
    except UpstreamResting as error:
        return str(error)
    return ""


def test_after_so_many_failures_in_a_row_calls_are_refused_with_the_time(clock: Clock) -> None:
    breaker = breaker_at(clock)
    fails(breaker, 2)
    assert refusal(breaker) == ""
    fails(breaker, 1)
    with pytest.raises(UpstreamResting) as refused:
        breaker.admit(ALICE)
    assert refused.value.code == "upstream_failed"
    assert refused.value.public == (
        "The upstream server failed 3 times in a row and is left alone. It is tried again in 1 s."
    )
    assert refused.value.detail == "the last time: status 503"


def test_one_success_between_failures_begins_the_count_anew(clock: Clock) -> None:
    breaker = breaker_at(clock)
    fails(breaker, 2)
    breaker.succeeded()
    fails(breaker, 2)
    assert (refusal(breaker), breaker.count()) == ("", 2)


def test_when_it_has_rested_one_call_finds_out(clock: Clock) -> None:
    breaker = breaker_at(clock)
    fails(breaker, 3)
    clock.now += 1
    trial = breaker.admit(ALICE)
    assert "It is being tried just now" in refusal(breaker)
    breaker.succeeded()
    assert (refusal(breaker), breaker.count(), breaker.is_open) == ("", 0, False)
    breaker.left(trial)


def test_a_trial_of_which_nothing_is_known_makes_room_for_the_next(clock: Clock) -> None:
    breaker = breaker_at(clock)
    fails(breaker, 3)
    clock.now += 1
    breaker.left(breaker.admit(ALICE))
    assert breaker.admit(ALICE) is not None


def test_each_trial_in_vain_doubles_the_rest_up_to_a_minute(clock: Clock) -> None:
    breaker = breaker_at(clock)
    fails(breaker, 3)
    rests = []
    for _ in range(9):
        began = clock.now
        while refusal(breaker):
            clock.now += 0.5
        rests.append(clock.now - began)
        fails(breaker, 1)
    assert rests == [1, 2, 4, 8, 16, 32, 60, 60, 60]


def test_it_may_fail_for_days(clock: Clock) -> None:
    breaker = breaker_at(clock)
    fails(breaker, 3)
    for _ in range(2000):
        clock.now += 60
        fails(breaker, 1)
    assert "in 60 s" in refusal(breaker)


def test_calls_that_were_under_way_when_it_broke_count_once(clock: Clock) -> None:
    breaker = breaker_at(clock)
    begun = [breaker.admit(ALICE) for _ in range(20)]
    for one in begun:
        breaker.failed(ALICE, one, "late")
    assert "in 1 s" in refusal(breaker)
    clock.now += 1
    trial = breaker.admit(ALICE)
    breaker.failed(ALICE, None, "late")
    assert "just now" in refusal(breaker)
    breaker.failed(ALICE, trial, "late")
    assert "in 2 s" in refusal(breaker)


def test_chance_makes_a_rest_shorter_by_a_fifth_at_most(clock: Clock) -> None:
    breaker = breaker_at(clock, rest_s=10, jitter=1.0)
    fails(breaker, 3)
    clock.now += 7.99
    assert refusal(breaker)
    clock.now += 0.02
    assert refusal(breaker) == ""


def test_who_makes_it_fail_holds_up_nobody_else(clock: Clock) -> None:
    breaker = breaker_at(clock)
    fails(breaker, 3)
    assert breaker.is_open
    assert [refusal(breaker, BOB) for _ in range(3)] == ["", "", ""]
    assert refusal(breaker)


def test_who_sees_it_fail_once_it_is_known_to_fail_is_kept_off_too(clock: Clock) -> None:
    breaker = breaker_at(clock)
    fails(breaker, 3)
    fails(breaker, 1, BOB)
    assert "failed 4 times in a row" in refusal(breaker, BOB)
    assert refusal(breaker, None) == ""


def test_a_handshake_lets_its_caller_through_and_says_nothing_of_calls(clock: Clock) -> None:
    breaker = breaker_at(clock)
    fails(breaker, 3)
    clock.now += 1
    breaker.answered(breaker.admit(ALICE))
    trials = [breaker.admit(ALICE) for _ in range(3)]  # at once
    assert breaker.is_open
    for one in trials:
        breaker.failed(ALICE, one, "late")
    assert "failed 6 times in a row" in refusal(breaker)
    assert "in 2 s" in refusal(breaker)


def test_anybodys_success_ends_it_for_everybody(clock: Clock) -> None:
    breaker = breaker_at(clock)
    fails(breaker, 3)
    breaker.admit(BOB)
    breaker.succeeded()
    assert refusal(breaker) == ""


def test_after_a_success_it_begins_with_the_first_rest(clock: Clock) -> None:
    breaker = breaker_at(clock)
    fails(breaker, 3)
    clock.now += 1
    fails(breaker, 1)
    assert "in 2 s" in refusal(breaker)
    breaker.succeeded()
    fails(breaker, 3)
    assert "in 1 s" in refusal(breaker)


def test_a_person_is_the_same_at_every_endpoint(clock: Clock) -> None:
    breaker = breaker_at(clock)
    fails(breaker, 3)
    assert refusal(breaker, ELSEWHERE)


@pytest.mark.parametrize(("failures", "rest_s"), [(0, 1.0), (1, 0.0)])
def test_patience_without_an_end_to_it_is_none(failures: int, rest_s: float) -> None:
    with pytest.raises(ValueError, match="patience"):
        Patience(failures=failures, rest_s=rest_s)
