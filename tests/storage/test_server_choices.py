"""What principals choose to see: the same in memory and on the disk, after a restart as before."""

import asyncio
from collections.abc import AsyncIterator
from functools import partial
from pathlib import Path

import pytest

from gateway.domain.selection import EVERY_SERVER, Choice, Choices, Selection
from gateway.domain.tools import UpstreamId
from gateway.ports.selection import ChoiceStore
from gateway.storage.choices import MOST_KEPT, DurableChoices
from tests.storage.memory_people import MemoryChoices
from tests.storage.placed import PLACES, Place, placed

MAIL, NOTES = UpstreamId("mail"), UpstreamId("notes")
NO_RUNS: frozenset[str] = frozenset()


def only(*servers: str) -> Selection:
    return Selection(names=frozenset(map(UpstreamId, servers)), but=False)


@pytest.fixture(params=[*PLACES, "memory"])
async def choices(request: pytest.FixtureRequest, tmp_path: Path) -> AsyncIterator[ChoiceStore]:
    if request.param == "memory":
        yield MemoryChoices()
        return
    async with placed(request, tmp_path) as place:
        yield chosen_in(place)


def chosen_in(place: Place, **more: int) -> DurableChoices:
    with place.reading() as tables:
        return DurableChoices(place.writer, tables, **more)


def without(before: Choices, gone: frozenset[UpstreamId]) -> Selection:
    return before.newest.without(gone)


def this(_: Choices, chosen: Selection) -> Selection:
    return chosen


def test_a_selection_names_what_it_shows_or_what_it_does_not() -> None:
    assert EVERY_SERVER.shows(MAIL)
    assert (only("mail").shows(MAIL), only("mail").shows(NOTES)) == (True, False)
    assert EVERY_SERVER.plus(frozenset({MAIL})) == EVERY_SERVER
    assert only("mail").plus(frozenset({NOTES})) == only("mail", "notes")
    less = EVERY_SERVER.without(frozenset({MAIL}))
    assert (less.shows(MAIL), less.shows(NOTES)) == (False, True)
    assert less.plus(frozenset({MAIL})) == EVERY_SERVER
    assert only("mail", "notes").without(frozenset({MAIL})) == only("notes")


async def test_who_has_chosen_nothing_sees_everything(choices: ChoiceStore) -> None:
    assert choices.of("p") == Choices()
    assert choices.of("p").newest == EVERY_SERVER
    assert choices.of("p").since(5, "s") == choices.of("p").within("r") == EVERY_SERVER


async def test_each_choice_begins_with_the_one_before(choices: ChoiceStore) -> None:
    await choices.choose("p", lambda _: only("mail", "notes"), runs=NO_RUNS)
    chosen = await choices.choose(
        "p", lambda one: one.newest.without(frozenset({MAIL})), runs=NO_RUNS
    )
    assert chosen == choices.of("p").newest == only("notes")
    assert choices.of("q").newest == EVERY_SERVER


async def test_of_choices_at_once_none_is_lost(choices: ChoiceStore) -> None:
    names = [frozenset({UpstreamId(f"s{n}")}) for n in range(20)]
    await asyncio.gather(
        *(choices.choose("p", partial(without, gone=n), runs=NO_RUNS) for n in names)
    )
    assert choices.of("p").newest.names == frozenset().union(*names)
    assert choices.of("p").number == 20


async def test_a_session_sees_what_was_chosen_before_it(choices: ChoiceStore) -> None:
    await choices.choose("p", lambda _: only("mail"), runs=NO_RUNS)
    await choices.choose("p", lambda _: only("notes"), runs=NO_RUNS)
    seen = [choices.of("p").since(number, "s") for number in range(4)]
    assert seen == [EVERY_SERVER, only("mail"), only("notes"), only("notes")]


async def test_a_session_sees_what_was_chosen_in_it(choices: ChoiceStore) -> None:
    await choices.choose("p", lambda _: only("mail"), runs=NO_RUNS, session="s1")
    await choices.choose("p", lambda _: only("notes"), runs=NO_RUNS, session="s2")
    await choices.choose("p", lambda _: only(), runs=NO_RUNS)
    seen = {session: choices.of("p").since(0, session) for session in ("s1", "s2", "s3", "")}
    assert seen == {"s1": only("mail"), "s2": only("notes"), "s3": EVERY_SERVER, "": EVERY_SERVER}


async def test_a_run_sees_what_was_chosen_while_it_was_not_live(choices: ChoiceStore) -> None:
    await choices.choose("p", lambda _: only("mail"), runs=frozenset({"r1"}))
    await choices.choose("p", lambda _: only("notes"), runs=frozenset({"r1", "r2"}))
    seen = {run: choices.of("p").within(run) for run in ("r1", "r2", "r3")}
    assert seen == {"r1": EVERY_SERVER, "r2": only("mail"), "r3": only("notes")}


async def test_of_very_many_the_newest_are_kept_and_no_old_session_sees_everything(
    choices: ChoiceStore,
) -> None:
    for number in range(MOST_KEPT + 3):
        chosen = only(f"s{number}")
        await choices.choose("p", partial(this, chosen=chosen), runs=frozenset({"r"}))
    made = choices.of("p").made
    assert [one.number for one in made] == list(range(4, MOST_KEPT + 4))
    assert choices.of("p").since(0, "s") == choices.of("p").within("r") == only("s3")


async def test_after_a_restart_they_are_what_they_were(place: Place) -> None:
    first = chosen_in(place)
    await first.choose("p", lambda _: only("mail"), runs=frozenset({"r1"}), session="s1")
    await first.choose("p", lambda one: one.newest.without(frozenset({MAIL})), runs=NO_RUNS)
    await first.choose("q", lambda _: EVERY_SERVER, runs=NO_RUNS)
    second = chosen_in(place)
    assert second.of("p").made == (
        Choice(number=1, selection=only("mail"), runs=frozenset({"r1"}), session="s1"),
        Choice(number=2, selection=only(), runs=NO_RUNS),
    )
    assert second.of("q").newest == EVERY_SERVER


async def test_whose_choice_is_the_oldest_is_forgotten_of_very_many(place: Place) -> None:
    choices = chosen_in(place, principals=2)
    for principal in ("a", "b", "a", "c"):
        await choices.choose(principal, lambda _: only("mail"), runs=NO_RUNS)
    assert [choices.of(one).number for one in ("a", "b", "c")] == [2, 0, 1]


async def test_a_change_that_fails_changes_nothing(choices: ChoiceStore) -> None:
    def failing(_: Choices) -> Selection:
        raise ValueError("no")

    with pytest.raises(ValueError, match="no"):
        await choices.choose("p", failing, runs=NO_RUNS)
    assert choices.of("p") == Choices()
