"""What principals choose to see: the same in memory and on the disk, after a restart as before."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

from gateway.domain.selection import EVERY_SERVER, Choice, Choices, Selection
from gateway.domain.tools import UpstreamId
from gateway.storage.choices import MOST_KEPT, MemoryChoices, SqliteChoices
from gateway.storage.connection import open_reader
from gateway.storage.database import DATABASE
from gateway.storage.store import Store

MAIL, NOTES = UpstreamId("mail"), UpstreamId("notes")
NO_RUNS: frozenset[str] = frozenset()


def only(*servers: str) -> Selection:
    return Selection(names=frozenset(map(UpstreamId, servers)), but=False)


@pytest.fixture
async def store(tmp_path: Path) -> AsyncIterator[Store]:
    opened = await Store.open(tmp_path / "data", clock=lambda: 0.0)
    yield opened
    await opened.close()


@pytest.fixture(params=["memory", "sqlite"])
def choices(request: pytest.FixtureRequest, store: Store) -> Any:
    return MemoryChoices() if request.param == "memory" else store.choices


def test_a_selection_names_what_it_shows_or_what_it_does_not() -> None:
    assert EVERY_SERVER.shows(MAIL)
    assert (only("mail").shows(MAIL), only("mail").shows(NOTES)) == (True, False)
    assert EVERY_SERVER.plus(frozenset({MAIL})) == EVERY_SERVER
    assert only("mail").plus(frozenset({NOTES})) == only("mail", "notes")
    less = EVERY_SERVER.without(frozenset({MAIL}))
    assert (less.shows(MAIL), less.shows(NOTES)) == (False, True)
    assert less.plus(frozenset({MAIL})) == EVERY_SERVER
    assert only("mail", "notes").without(frozenset({MAIL})) == only("notes")


async def test_who_has_chosen_nothing_sees_everything(choices: Any) -> None:
    assert choices.of("p") == Choices()
    assert choices.of("p").newest == EVERY_SERVER
    assert choices.of("p").since(5, "s") == choices.of("p").within("r") == EVERY_SERVER


async def test_each_choice_begins_with_the_one_before(choices: Any) -> None:
    await choices.choose("p", lambda _: only("mail", "notes"), runs=NO_RUNS)
    chosen = await choices.choose(
        "p", lambda one: one.newest.without(frozenset({MAIL})), runs=NO_RUNS
    )
    assert chosen == choices.of("p").newest == only("notes")
    assert choices.of("q").newest == EVERY_SERVER


async def test_of_choices_at_once_none_is_lost(choices: Any) -> None:
    names = [frozenset({UpstreamId(f"s{n}")}) for n in range(20)]
    await asyncio.gather(
        *(choices.choose("p", lambda one, n=n: one.newest.without(n), runs=NO_RUNS) for n in names)
    )
    assert choices.of("p").newest.names == frozenset().union(*names)
    assert choices.of("p").number == 20


async def test_a_session_sees_what_was_chosen_before_it(choices: Any) -> None:
    await choices.choose("p", lambda _: only("mail"), runs=NO_RUNS)
    await choices.choose("p", lambda _: only("notes"), runs=NO_RUNS)
    seen = [choices.of("p").since(number, "s") for number in range(4)]
    assert seen == [EVERY_SERVER, only("mail"), only("notes"), only("notes")]


async def test_a_session_sees_what_was_chosen_in_it(choices: Any) -> None:
    await choices.choose("p", lambda _: only("mail"), runs=NO_RUNS, session="s1")
    await choices.choose("p", lambda _: only("notes"), runs=NO_RUNS, session="s2")
    await choices.choose("p", lambda _: only(), runs=NO_RUNS)
    seen = {session: choices.of("p").since(0, session) for session in ("s1", "s2", "s3", "")}
    assert seen == {"s1": only("mail"), "s2": only("notes"), "s3": EVERY_SERVER, "": EVERY_SERVER}


async def test_a_run_sees_what_was_chosen_while_it_was_not_live(choices: Any) -> None:
    await choices.choose("p", lambda _: only("mail"), runs=frozenset({"r1"}))
    await choices.choose("p", lambda _: only("notes"), runs=frozenset({"r1", "r2"}))
    seen = {run: choices.of("p").within(run) for run in ("r1", "r2", "r3")}
    assert seen == {"r1": EVERY_SERVER, "r2": only("mail"), "r3": only("notes")}


async def test_of_very_many_the_newest_are_kept_and_no_old_session_sees_everything(
    choices: Any,
) -> None:
    for number in range(MOST_KEPT + 3):
        await choices.choose("p", lambda _, n=number: only(f"s{n}"), runs=frozenset({"r"}))
    made = choices.of("p").made
    assert [one.number for one in made] == list(range(4, MOST_KEPT + 4))
    assert choices.of("p").since(0, "s") == choices.of("p").within("r") == only("s3")


async def test_after_a_restart_they_are_what_they_were(tmp_path: Path) -> None:
    first = await Store.open(tmp_path / "data", clock=lambda: 0.0)
    await first.choices.choose("p", lambda _: only("mail"), runs=frozenset({"r1"}), session="s1")
    await first.choices.choose("p", lambda one: one.newest.without(frozenset({MAIL})), runs=NO_RUNS)
    await first.choices.choose("q", lambda _: EVERY_SERVER, runs=NO_RUNS)
    await first.close()
    second = await Store.open(tmp_path / "data", clock=lambda: 0.0)
    try:
        assert second.choices.of("p").made == (
            Choice(number=1, selection=only("mail"), runs=frozenset({"r1"}), session="s1"),
            Choice(number=2, selection=only(), runs=NO_RUNS),
        )
        assert second.choices.of("q").newest == EVERY_SERVER
    finally:
        await second.close()


async def test_whose_choice_is_the_oldest_is_forgotten_of_very_many(store: Store) -> None:
    with closing(open_reader(store.data_dir / DATABASE)) as connection:
        choices = SqliteChoices(store.writer, connection, principals=2)
    for principal in ("a", "b", "a", "c"):
        await choices.choose(principal, lambda _: only("mail"), runs=NO_RUNS)
    assert [choices.of(one).number for one in ("a", "b", "c")] == [2, 0, 1]


async def test_a_change_that_fails_changes_nothing(choices: Any) -> None:
    def failing(_: Selection) -> Selection:
        raise ValueError("no")

    with pytest.raises(ValueError, match="no"):
        await choices.choose("p", failing, runs=NO_RUNS)
    assert choices.of("p") == Choices()
