"""By which policy a central server answers, whatever answer comes first, and of how many servers."""

from typing import Any

from gateway.policy.naming import Naming


def named(*heard: str) -> Naming:
    """Hear these answers, each to a question that is asked after the one before was answered."""
    naming = Naming("")
    for one in heard:
        naming.heard(one, naming.ask())
    return naming


def test_the_newest_policy_is_the_one_that_holds() -> None:
    naming = named("r1", "r2")
    assert (naming.newest, naming.holds("r2"), naming.holds("r1")) == ("r2", True, False)


def test_whoever_is_told_hears_of_another_policy_alone() -> None:
    naming = Naming("")
    assert [naming.heard(one, naming.ask()) for one in ("r1", "r1", "r2", "r2")] == [
        True,
        False,
        True,
        False,
    ]


def test_an_answer_that_comes_late_names_nothing() -> None:
    naming = named("r1")
    early, late = naming.ask(), naming.ask()
    assert naming.heard("r2", late)
    assert not naming.heard("r1", early)
    assert (naming.newest, naming.holds("r1")) == ("r2", False)


def test_a_policy_that_a_late_answer_is_the_first_to_name_comes_with_the_next() -> None:
    naming = named("r1")
    early, late = naming.ask(), naming.ask()
    naming.heard("r1", late)
    assert not naming.heard("r2", early)
    assert not naming.holds("r2")
    assert naming.heard("r2", naming.ask())
    assert naming.holds("r2")


def test_of_several_servers_each_ones_policy_holds_once_it_has_come_back() -> None:
    naming = named("r1", "r2", "r1", "r2", "r1")
    assert (naming.holds("r1"), naming.holds("r2"), naming.holds("r3")) == (True, True, False)


def test_what_was_asked_before_it_was_replaced_brings_no_policy_back() -> None:
    naming = named("r1")
    waiting = [naming.ask() for _ in range(3)]
    naming.heard("r2", naming.ask())
    for question in waiting:
        naming.heard("r1", question)
    assert not naming.holds("r1")


def test_of_a_policy_that_was_taken_back_nothing_holds() -> None:
    assert not named("r1", "r2", "r1").holds("r2")


def test_a_policy_that_is_heard_no_more_ends() -> None:
    naming = named("r1", "r2", "r1", "r2")
    for _ in range(64):
        assert naming.holds("r1")
        naming.heard("r2", naming.ask())
    assert not naming.holds("r1")


def test_names_without_end_fill_no_memory() -> None:
    naming = named(*(f"r{n}" for n in range(200)), *(f"r{n}" for n in range(200)))
    kept: list[Any] = [naming._replaced, naming._back]
    assert all(len(one) <= 16 for one in kept)
