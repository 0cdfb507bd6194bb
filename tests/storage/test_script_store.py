"""Programs and their budgets in the database."""

import asyncio
import threading
from collections.abc import AsyncIterator, Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from gateway.domain import scripts as domain
from gateway.domain.scripts import MOST_WAITING, Script, ScriptId, ToolGrant
from gateway.domain.tools import UpstreamId
from gateway.errors import RateLimited
from gateway.ports.scripts import Parked, ScriptStore
from gateway.storage import scripts as module
from gateway.storage.scripts import DurableScriptStore
from tests.storage.memory_calls import MemoryScriptStore
from tests.storage.placed import PLACES, Place, placed
from tests.storage.test_approval_stores import Envelope

NOW = 1_000.0


def script(name: str = "s_1", **changed: Any) -> Script:
    granted = ToolGrant(server=UpstreamId("desk"), tool="create", most=2, arguments={"project": 1})
    given: dict[str, Any] = {
        "id": ScriptId(name),
        "principal": "alice",
        "sha256": "ab" * 32,
        "grants": (granted,),
        "most": 3,
        "parent": "d_1",
        "began": NOW,
        "expires_at": NOW + 60,
    }
    return Script(**{**given, **changed})


@pytest.fixture(params=[*PLACES, "memory"])
async def kept(request: pytest.FixtureRequest, tmp_path: Path) -> AsyncIterator[ScriptStore]:
    if request.param == "memory":
        yield MemoryScriptStore()
        return
    async with placed(request, tmp_path) as place:
        yield scripts(place)


def scripts(place: Place) -> DurableScriptStore:
    with place.reading() as tables:
        return DurableScriptStore(place.writer, tables, Envelope())


async def test_a_budget_is_exact_however_many_ask_at_once(kept: ScriptStore) -> None:
    await kept.begin(script(most=50, grants=None))
    taken = await asyncio.gather(*(kept.take(ScriptId("s_1"), None, now=NOW) for _ in range(100)))
    assert taken.count(True) == 50


async def test_a_grant_has_a_budget_of_its_own(kept: ScriptStore) -> None:
    await kept.begin(script())
    answers = [await kept.take(ScriptId("s_1"), 0, now=NOW) for _ in range(3)]
    assert answers == [True, True, False]
    # What was refused has used up nothing: the program has one call left, of its three.
    assert await kept.take(ScriptId("s_1"), None, now=NOW)
    assert not await kept.take(ScriptId("s_1"), None, now=NOW)


async def test_a_grant_that_is_not_there_gives_nothing(kept: ScriptStore) -> None:
    await kept.begin(script())
    assert not await kept.take(ScriptId("s_1"), 1, now=NOW)
    assert not await kept.take(ScriptId("s_2"), None, now=NOW)


async def test_a_program_that_ended_calls_nothing(kept: ScriptStore) -> None:
    await kept.begin(script())
    assert (await kept.end(ScriptId("s_1")), await kept.end(ScriptId("s_1"))) == (True, False)
    assert kept.find(ScriptId("s_1"), now=NOW) is None
    assert not await kept.take(ScriptId("s_1"), None, now=NOW)


async def test_a_program_runs_out(kept: ScriptStore) -> None:
    await kept.begin(script())
    assert kept.find(ScriptId("s_1"), now=NOW + 59.9) == script()
    assert kept.find(ScriptId("s_1"), now=NOW + 60) is None
    assert not await kept.take(ScriptId("s_1"), None, now=NOW + 60)


async def test_what_was_used_up_and_what_waits_outlive_a_restart(place: Place) -> None:
    kept = scripts(place)
    await kept.begin(script())
    await kept.take(ScriptId("s_1"), 0, now=NOW)
    waiting = Parked(script=script(), snapshot=b"state")
    await kept.park(waiting)
    again = scripts(place)
    assert again.find(ScriptId("s_1"), now=NOW) == script()
    assert await again.unpark(ScriptId("s_1"), "alice", now=NOW) == waiting
    assert [await again.take(ScriptId("s_1"), 0, now=NOW) for _ in range(2)] == [True, False]


async def test_what_a_program_holds_is_sealed_and_opened_beside_the_loop(
    place: Place, monkeypatch: pytest.MonkeyPatch
) -> None:
    kept, loop, ran = scripts(place), threading.get_ident(), list[tuple[str, bool]]()

    def noting(name: str) -> Callable[..., Any]:
        def done(self: Envelope, what: Any, row: str) -> Any:
            if row.startswith(("parked_scripts:", "scripts:")):
                ran.append((name, threading.get_ident() != loop))
            return work(self, what, row)

        work = getattr(Envelope, name)
        return done

    for name in ("seal", "open"):
        monkeypatch.setattr(Envelope, name, noting(name))
    await kept.begin(script())
    await kept.park(Parked(script=script(), snapshot=b"state"))
    assert await kept.unpark(ScriptId("s_1"), "alice", now=NOW) is not None
    assert ran == [("seal", True), ("seal", True), ("open", True)]


async def test_one_of_many_takes_a_waiting_program_out(place: Place) -> None:
    kept = scripts(place)
    await kept.begin(script())
    await kept.park(Parked(script=script(), snapshot=b"state"))
    found = await asyncio.gather(
        *(kept.unpark(ScriptId("s_1"), "alice", now=NOW) for _ in range(8))
    )
    assert [one is None for one in found].count(False) == 1
    assert await scripts(place).unpark(ScriptId("s_1"), "alice", now=NOW) is None


async def test_a_waiting_program_is_its_principals_alone_and_until_it_runs_out(
    kept: ScriptStore,
) -> None:
    await kept.begin(script())
    await kept.park(Parked(script=script(), snapshot=b"state"))
    assert await kept.unpark(ScriptId("s_1"), "mallory", now=NOW) is None
    assert await kept.unpark(ScriptId("s_1"), "alice", now=NOW + 60) is None


async def test_a_program_that_ended_waits_no_more(place: Place) -> None:
    kept = scripts(place)
    await kept.begin(script())
    await kept.park(Parked(script=script(), snapshot=b"state"))
    await kept.end(ScriptId("s_1"))
    for one in (kept, scripts(place)):
        assert await one.unpark(ScriptId("s_1"), "alice", now=NOW) is None


async def test_of_more_than_may_wait_the_one_that_began_first_ends(kept: ScriptStore) -> None:
    """What one of them holds takes megabytes, and beginning one costs its principal little."""
    names = [f"s_{n}" for n in range(MOST_WAITING + 1)]
    for n, name in enumerate(reversed(names)):
        one = script(name, began=NOW + n)
        await kept.begin(one)
        await kept.park(Parked(script=one, snapshot=b"state"))
    other = script("s_other", principal="bob")
    await kept.begin(other)
    await kept.park(Parked(script=other, snapshot=b"state"))
    gone = ScriptId(names[-1])
    assert kept.find(gone, now=NOW) is None
    assert not await kept.take(gone, None, now=NOW)
    left = [
        await kept.unpark(ScriptId(name), "alice", now=NOW) is not None for name in reversed(names)
    ]
    assert left == [False, *[True] * MOST_WAITING]
    assert await kept.unpark(other.id, "bob", now=NOW) is not None


async def test_one_that_waits_again_ends_no_other(kept: ScriptStore) -> None:
    waiting = [script(f"s_{n}", began=NOW + n) for n in range(MOST_WAITING)]
    for one in (*waiting, *waiting):
        if kept.find(one.id, now=NOW) is None:
            await kept.begin(one)
        await kept.park(Parked(script=one, snapshot=b"state"))
    assert all(kept.find(one.id, now=NOW) is not None for one in waiting)


async def test_one_persons_hosts_have_so_many_programs_at_once_and_no_more(
    place: Place, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, "MOST_OF_ONE", 2)

    def of_host(name: str, client: int, **changed: Any) -> Script:
        return script(name, principal=f"us|alice|c{client}", person="us|alice", **changed)

    kept = scripts(place)
    await kept.begin(of_host("h_1", 1, expires_at=NOW + 10))
    await kept.begin(of_host("h_2", 2))
    for one in (kept, scripts(place)):
        with pytest.raises(RateLimited):
            await one.begin(of_host("h_3", 3))
    await kept.begin(script("own", principal="us|alice|c1"))
    await kept.begin(of_host("h_3", 3, began=NOW + 10))
    with pytest.raises(RateLimited):
        await kept.begin(of_host("h_4", 1, began=NOW + 10))
    assert await kept.end(ScriptId("h_2"))
    await kept.begin(of_host("h_4", 1, began=NOW + 10))
    assert [one.id for one in kept.live(now=NOW + 10)] == ["own", "h_3", "h_4"]


async def test_programs_are_counted_by_person_once_however_often_they_are_shown(
    place: Place,
) -> None:
    """Nobody's program is looked at for another's: there may be very many."""
    kept, names = scripts(place), [ScriptId(f"h_{n}") for n in range(3)]
    for name in names:
        await kept.begin(script(name, person="us|alice"))
    await kept.begin(script("own"))
    for shown in (names, None, names[:1]):
        with place.reading() as tables:
            kept.look(tables, shown)()
        kept._keep(script(names[0], person="us|alice"))
        assert kept._of_person == {"us|alice": 3, "alice": 1}
    for name in (*names, names[0]):
        await kept.end(name)
    assert kept._of_person == {"alice": 1}
    await kept.end(ScriptId("own"))
    assert (kept._octets, *kept._octets_of, *kept._weights) == (0,)


def granted_much(name: str, letters: int, **changed: Any) -> Script:
    much = ToolGrant(
        server=UpstreamId("desk"), tool="create", most=2, arguments={"text": "x" * letters}
    )
    return script(name, grants=(much,), **changed)


async def test_what_programs_are_granted_is_bounded_in_bytes(
    place: Place, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, "SHARE", 10_000)
    monkeypatch.setattr(module, "MOST_OCTETS", 20_000)
    kept = scripts(place)

    async def begun(name: str, person: str, letters: int = 6_000) -> bool:
        one = granted_much(name, letters, person=person, principal=f"{person}|{name}")
        try:
            await kept.begin(one)
        except RateLimited:
            return False
        return True

    assert [await begun(f"a_{n}", "alice") for n in range(2)] == [True, False]
    kept = scripts(place)
    assert [await begun(n, n) for n in ("alice", "bob", "carol")] == [False, True, False]
    assert await kept.end(ScriptId("a_0"))
    assert [await begun(n, n) for n in ("carol", "alice")] == [True, False]
    monkeypatch.setattr(module, "MOST_OCTETS", 100_000)
    monkeypatch.setattr(module, "MOST", 3)
    assert [await begun(n, n, 1) for n in ("dora", "emma")] == [True, False]


async def test_what_nests_counts_for_what_it_is_in_memory(place: Place) -> None:
    grant = script().grants
    assert grant is not None
    flat = granted_much("s_1", 3_000)
    nested = script("s_2", grants=(replace(grant[0], arguments={"a": [[]] * 1_000}),))
    assert module._weight(nested) > 10 * module._weight(flat)


async def test_what_a_program_was_granted_goes_once_it_has_ended(place: Place) -> None:
    kept = scripts(place)
    for name in ("s_1", "s_2"):
        await kept.begin(script(name, expires_at=NOW + 60))
    await kept.end(ScriptId("s_1"))
    # One that has run out is ended by the next.
    await kept.begin(script("s_3", began=NOW + 60, expires_at=NOW + 120))
    rows = dict(place.rows("SELECT id, length(sealed) FROM scripts"))
    assert (rows["s_1"], rows["s_2"], rows["s_3"] > 0) == (0, 0, True)
    assert not await kept.end(ScriptId("s_1"))


async def test_programs_that_ended_at_once_leave_nothing_in_memory(place: Place) -> None:
    kept = scripts(place)
    await kept.begin(script("s_long"))
    for n in range(300):
        kept._keep(script(f"s_{n}", began=NOW + n))
        kept._drop(ScriptId(f"s_{n}"))
    assert len(kept._ends) <= module._ENDS + 2
    await kept.begin(script("s_last", began=NOW + 60, expires_at=NOW + 120))
    assert [one.id for one in kept.live(now=NOW)] == ["s_last"]


async def test_one_persons_clients_have_programs_wait_together(kept: ScriptStore) -> None:
    for n in range(MOST_WAITING + 2):
        one = script(f"s_{n}", began=NOW + n, principal=f"us|alice|c{n}", person="us|alice")
        await kept.begin(one)
        await kept.park(Parked(script=one, snapshot=b"state"))
    waits = [kept.waits(ScriptId(f"s_{n}")) for n in range(MOST_WAITING + 2)]
    assert waits == [False, False, *[True] * MOST_WAITING]


async def test_what_programs_hold_that_wait_is_bounded(
    kept: ScriptStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(domain, "SHARE_WAITING", 2_500)
    monkeypatch.setattr(domain, "ALL_WAITING", 5_000)

    async def parked(name: str, person: str, octets: int, began: float) -> None:
        one = script(name, began=NOW + began, person=person)
        await kept.begin(one)
        await kept.park(Parked(script=one, snapshot=b"x" * octets))

    async def left() -> list[str]:
        return [one.id for one in kept.live(now=NOW) if kept.waits(one.id)]

    for n, name in enumerate(("a_1", "a_2", "a_3")):
        await parked(name, "alice", 1_000, n + 1)
    assert await left() == ["a_2", "a_3"]
    await parked("b_1", "bob", 900, 0)
    await parked("c_1", "carol", 900, 5)
    assert await left() == ["b_1", "a_2", "a_3", "c_1"]
    # Of whoever holds most the oldest goes, not the oldest of all.
    await parked("d_1", "dora", 1_500, 6)
    assert await left() == ["b_1", "a_3", "c_1", "d_1"]
    # One that is larger by itself waits alone.
    await parked("a_4", "alice", 3_000, 7)
    assert "a_4" in await left()
    assert "a_3" not in await left()


async def test_programs_that_ran_out_long_ago_are_forgotten(place: Place) -> None:
    kept = scripts(place)
    await kept.begin(script())
    later = NOW + 2 * 86_400
    await kept.begin(script("s_2", began=later, expires_at=later + 60))
    assert [*place.rows("SELECT id FROM scripts")] == [("s_2",)]
    assert [*place.rows("SELECT script FROM script_grants")] == [("s_2",)]


async def test_what_a_program_held_is_forgotten_once_it_has_run_out(place: Place) -> None:
    kept = scripts(place)
    await kept.begin(script())
    await kept.park(Parked(script=script(), snapshot=b"state"))
    await kept.begin(script("s_2", began=NOW + 60, expires_at=NOW + 120))
    assert [*place.rows("SELECT script FROM parked_scripts")] == []


async def test_so_it_is_where_the_next_program_was_refused(
    place: Place, monkeypatch: pytest.MonkeyPatch
) -> None:
    kept = scripts(place)
    await kept.begin(script())
    await kept.park(Parked(script=script(), snapshot=b"state"))
    monkeypatch.setattr(module, "MOST", 0)
    with pytest.raises(RateLimited):
        await kept.begin(script("s_2", began=NOW + 60, expires_at=NOW + 120))
    monkeypatch.undo()
    await kept.begin(script("s_3", began=NOW + 60, expires_at=NOW + 120))
    assert [*place.rows("SELECT script FROM parked_scripts")] == []
    assert [*place.rows("SELECT sealed FROM scripts WHERE id = 's_1'")] == [("",)]


async def test_of_one_that_was_ended_as_it_began_to_wait_nothing_is_in_the_tables(
    place: Place,
) -> None:
    kept = scripts(place)
    await kept.begin(script())
    await asyncio.gather(
        kept.end(ScriptId("s_1")), kept.park(Parked(script=script(), snapshot=b"state"))
    )
    assert [*place.rows("SELECT script FROM parked_scripts")] == []


async def test_of_one_that_was_ended_as_it_began_to_wait_nothing_is_kept(kept: ScriptStore) -> None:
    for name in ("s_1", "s_2"):
        await kept.begin(script(name))
    await asyncio.gather(
        kept.end(ScriptId("s_1")), kept.park(Parked(script=script(), snapshot=b"state"))
    )
    assert not kept.waits(ScriptId("s_1"))
    assert await kept.unpark(ScriptId("s_1"), "alice", now=NOW) is None
    assert kept.find(ScriptId("s_2"), now=NOW) is not None


async def test_programs_that_live_are_told_oldest_first_and_whether_they_wait(
    kept: ScriptStore,
) -> None:
    for name, began in (("s_2", NOW + 2), ("s_1", NOW + 1)):
        await kept.begin(script(name, began=began))
    await kept.begin(script("s_late", expires_at=NOW))
    await kept.park(Parked(script=script("s_2", began=NOW + 2), snapshot=b"state"))
    assert [one.id for one in kept.live(now=NOW)] == ["s_1", "s_2"]
    assert [kept.waits(ScriptId(name)) for name in ("s_1", "s_2")] == [False, True]


async def test_who_runs_a_program_is_told_that_it_was_ended(kept: ScriptStore) -> None:
    for name in ("s_1", "s_2"):
        await kept.begin(script(name))
    told: list[str] = []
    with kept.watched(ScriptId("s_1"), lambda: told.append("s_1")):
        await kept.end(ScriptId("s_2"))
        assert told == []
        await kept.end(ScriptId("s_1"))
    assert told == ["s_1"]
    await kept.end(ScriptId("s_1"))
    assert told == ["s_1"]


async def test_one_that_was_ended_stays_so_over_a_restart(place: Place) -> None:
    kept = scripts(place)
    await kept.begin(script())
    await kept.park(Parked(script=script(), snapshot=b"state"))
    await kept.end(ScriptId("s_1"))
    again = scripts(place)
    assert (list(again.live(now=NOW)), again.waits(ScriptId("s_1"))) == ([], False)
    assert again.find(ScriptId("s_1"), now=NOW) is None
    assert not await again.take(ScriptId("s_1"), 0, now=NOW)
    assert await again.unpark(ScriptId("s_1"), "alice", now=NOW) is None
