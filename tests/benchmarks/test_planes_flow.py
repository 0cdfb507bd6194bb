"""What a plane that only asks and reports makes of recorded calls is what the gateway makes of them."""

from collections.abc import Sequence
from pathlib import Path

import pytest

from benchmarks.flow.outcome import Outcome
from benchmarks.flow.traces import Step, Trace
from benchmarks.planes.flow import NAMES, Compared, both_ways, compared, suite_of
from benchmarks.planes.parts import Kept

STEP = Step(
    server="desk", tool="do", arguments={}, result={}, of_user=False, harmful=True
)  # fmt: skip
PASSED = Outcome(step=STEP, code=None, executed=True)
HELD = Outcome(step=STEP, code="approval_required", reasons=("why",), executed=False)
LATE = Outcome(step=STEP, code="audit_unavailable", executed=False)
TRACE = Trace(id="one", is_attack=True, user_task="u", goal="g", prompt="", steps=[STEP])


class Played:
    """Ends the calls of a trace as it was told to, one time after the other."""

    def __init__(self, *times: Sequence[Outcome]) -> None:
        self._times = list(times)

    async def play(self, conversations: Sequence[Sequence[Trace]]) -> list[list[list[Outcome]]]:
        assert [[one.id for one in traces] for traces in conversations] == [["one"]]
        return [[list(self._times.pop(0))]]


@pytest.mark.parametrize("at", [0, 2])
async def test_recorded_attacks_and_tasks_end_alike(tmp_path: Path, at: int) -> None:
    found = await compared(suite_of(NAMES[at], 4), declared=True, folder=tmp_path)
    assert (found.calls > 4, found.refused > 0, list(found.failures)) == (True, True, [])


def test_what_ends_otherwise_is_told() -> None:
    found = Compared(suite="desk")
    found.add("one", [HELD, PASSED], [PASSED, PASSED])
    assert (found.harm, found.harm_of_gateway) == (2, 1)
    (told,) = found.failures
    assert "approval_required (why), kept and by the plane passed (), sent" in told
    assert told.endswith("(at first in one)")


async def test_a_call_without_a_decision_is_tried_again_with_its_trace() -> None:
    gateway, plane = (
        Played([PASSED, HELD], [PASSED, PASSED]),
        Played([LATE, PASSED], [PASSED, PASSED]),
    )
    assert await both_ways(gateway, plane, [TRACE]) == (
        {"one": ([PASSED, PASSED], [PASSED, PASSED])},
        1,
    )


async def test_what_never_gets_a_decision_is_told_in_the_end() -> None:
    ended, again = await both_ways(Played(*[[PASSED]] * 3), Played(*[[LATE]] * 3), [TRACE])
    assert (ended, again) == ({"one": ([PASSED], [LATE])}, 1)


@pytest.mark.parametrize(
    ("ours", "planes"), [([PASSED], [HELD]), ([LATE], [LATE]), ([HELD, LATE], [PASSED, PASSED])]
)
async def test_what_was_decided_is_not_asked_about_once_more(
    ours: list[Outcome], planes: list[Outcome]
) -> None:
    assert await both_ways(Played(ours), Played(planes), [TRACE]) == ({"one": (ours, planes)}, 0)


def test_traces_that_are_tried_again_too_often_fail_the_report() -> None:
    found = Compared(suite="desk", played=100, again=5)
    assert list(found.failures) == []
    found.again = 6
    assert list(found.failures) == ["desk: 6 of 100 traces had to be played again"]


def test_a_suite_that_was_ended_goes_on_where_it_was(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("benchmarks.planes.parts.commit", lambda: "abc")
    kept, found = Kept(plan={}, folder=tmp_path), Compared(suite="desk")
    found.add("one", [HELD], [PASSED])
    kept.begin("desk", found.content)
    begun = kept.begun("desk")
    assert begun is not None
    assert Compared.of(begun) == found
    assert kept.find("desk") is None


async def test_what_was_played_is_not_played_once_more(tmp_path: Path) -> None:
    suite, kept = suite_of(NAMES[0], 4), Kept(plan={}, folder=tmp_path / "parts")
    before = Compared(suite=suite.name, played=3, calls=100)
    found = await compared(suite, declared=True, folder=tmp_path, found=before, kept=kept)
    assert (found.played, found.calls) == (4, 100 + len(suite.traces[3].steps))
