"""What runs of very many callers take: a plane that vouches names as many as it likes."""

from dataclasses import replace

import pytest

from gateway.domain.flow import RunHint
from gateway.domain.identity import BY_PLANE, Principal
from gateway.domain.labels import BOTTOM, STRICTEST_DEFAULT
from gateway.errors import AuditUnavailable, Fault, RateLimited
from gateway.storage import callers
from gateway.storage import runs as runs_module
from gateway.storage.runs import RunLimits, Runs
from tests.storage.memory import MemoryRunStore
from tests.storage.suite import Elapsed, host, principal

NOTHING = RunHint()


def named_by(plane: str, subject: str) -> Principal:
    found: Principal = replace(principal(subject), token_id=BY_PLANE + plane)
    return found


def of_an_issuer(subject: str) -> Principal:
    found: Principal = replace(principal(subject, issuer="https://elsewhere"), people=None)
    return found


def held(runs: Runs) -> list[int]:
    """Return how many owners each of the tables of a store knows."""
    return [len(each) for each in (runs._wholes, runs._parts, runs._persons, runs._kept_of)]


async def test_of_an_owner_without_a_run_nothing_is_kept(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(runs_module, "MOST_ENDED", 2)
    runs = MemoryRunStore()
    for number in range(20):
        one = host(f"u{number}")
        handle, begun = await runs.begin(one, None)
        await runs.of(one, RunHint(handle=handle))
        await runs.raise_label(begun.id, begun.label, None)
        assert begun.part_of is not None
        await runs.end(begun.part_of)
        await runs.of(host("u0"), RunHint(handle=handle))  # nobody's of theirs
        for run in runs.live(host("u0")):
            await runs.end(run)
    wholes, parts, persons, owners = held(runs)
    assert (wholes, parts) == (0, 0)
    assert persons <= 2
    assert owners <= 2


@pytest.mark.parametrize("another", [named_by("two", "u9"), principal("u9"), of_an_issuer("u9")])
async def test_a_plane_names_only_so_many_at_once_and_takes_nobody_elses_place(
    monkeypatch: pytest.MonkeyPatch, another: Principal
) -> None:
    monkeypatch.setattr(callers, "MOST_CALLERS", 2)
    elapsed = Elapsed()
    runs = MemoryRunStore(limits=RunLimits(), elapsed=elapsed)
    first = await runs.of(named_by("one", "u0"), NOTHING)
    await runs.of(named_by("one", "u1"), NOTHING)
    with pytest.raises(RateLimited) as refused:
        await runs.of(named_by("one", "u2"), NOTHING)
    assert refused.value.wait_s
    with pytest.raises(RateLimited):
        await runs.begin(named_by("one", "u2"), None)
    assert (await runs.of(named_by("one", "u0"), NOTHING)).id == first.id
    await runs.of(another, NOTHING)
    elapsed.now += RunLimits().idle_s
    await runs.of(named_by("one", "u2"), NOTHING)
    assert not runs.find(first.id).live  # type: ignore[union-attr]


async def test_whom_a_plane_named_before_a_restart_counts_once_they_call_again(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(callers, "MOST_CALLERS", 2)
    known = callers.Callers()
    for subject in ("u0", "u1", "u2"):
        known.note(subject, 0.0)
        known.call(subject, named_by("one", subject), 1.0, 0.0)
    with pytest.raises(RateLimited):
        known.call("u3", named_by("one", "u3"), 1.0, 0.0)
    known.call("u4", named_by("two", "u4"), 1.0, 0.0)


async def test_of_what_a_plane_begins_the_run_that_was_unused_for_longest_makes_way(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(callers, "MOST_BEGUN", 2)
    runs = MemoryRunStore()
    hosts = [replace(named_by("one", f"u{number}"), trusted_host=True) for number in range(3)]
    kept, first = await runs.begin(hosts[0], None)
    _, second = await runs.begin(hosts[1], None)
    assert (await runs.of(hosts[0], RunHint(handle=kept))).id == first.id
    others = [replace(named_by("two", "u9"), trusted_host=True), host("u9")]
    theirs = [(await runs.begin(other, None))[1] for other in others for _ in range(2)]
    _, third = await runs.begin(hosts[2], None)
    state = {run.id: runs.find(run.id) for run in (first, second, third, *theirs)}
    ended = [name for name, one in state.items() if one is None or not one.live]
    assert ended == [second.id]
    await runs.end(third.id)
    await runs.begin(hosts[2], None)
    assert runs.find(first.id).live  # type: ignore[union-attr]


async def test_an_issuer_of_others_names_only_so_many_at_once(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(callers, "MOST_CALLERS", 1)
    runs = MemoryRunStore()
    await runs.of(of_an_issuer("u0"), NOTHING)
    with pytest.raises(RateLimited):
        await runs.of(of_an_issuer("u1"), NOTHING)
    for subject in ("u2", "u3"):
        await runs.of(principal(subject), NOTHING)  # of ours there are as many as are registered


async def test_a_run_that_cannot_begin_ends_nobodys(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(callers, "MOST_BEGUN", 2)
    runs = MemoryRunStore()
    hosts = [replace(named_by("one", f"u{number}"), trusted_host=True) for number in range(3)]
    handle, over = await runs.begin(hosts[0], None)
    await runs.end(over.id)
    begun = [(await runs.begin(one, None))[1] for one in hosts[1:]]
    with pytest.raises(Fault):
        await runs.begin(hosts[0], None, handle)
    assert [run.live for one in begun if (run := runs.find(one.id)) is not None] == [True, True]
    assert [len(each) for each in runs._begun_by._of.values()] == [2]


async def test_a_label_that_could_not_be_lowered_is_waited_for_until_the_next_change(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    runs = MemoryRunStore()
    one = host("u0")
    run = await runs.of(one, NOTHING)
    await runs.raise_label(run.id, STRICTEST_DEFAULT, None)
    look = await runs.look_at(run.id)

    async def fails(*_: object) -> object:
        raise AuditUnavailable("the audit log cannot record this now")

    with monkeypatch.context() as patched:
        patched.setattr(runs._ledger, "make", fails)
        with pytest.raises(AuditUnavailable):
            await runs.lower_label(run.id, STRICTEST_DEFAULT, BOTTOM, look=look)
    await runs.raise_label(run.id, STRICTEST_DEFAULT, None)  # written down, to be sure
    monkeypatch.setattr(runs._ledger, "make", fails)
    await runs.raise_label(run.id, STRICTEST_DEFAULT, None)
