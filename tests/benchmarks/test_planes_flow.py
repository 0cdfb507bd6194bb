"""What a plane that only asks and reports makes of recorded calls is what the gateway makes of them."""

from pathlib import Path

import pytest

from benchmarks.flow.outcome import Outcome
from benchmarks.flow.traces import Step
from benchmarks.planes.flow import NAMES, Compared, compared, suite_of

STEP = Step(
    server="desk", tool="do", arguments={}, result={}, of_user=False, harmful=True
)  # fmt: skip
PASSED = Outcome(step=STEP, code=None, executed=True)
HELD = Outcome(step=STEP, code="approval_required", reasons=("why",), executed=False)


@pytest.mark.parametrize("at", [0, 2])
async def test_recorded_attacks_and_tasks_end_alike(tmp_path: Path, at: int) -> None:
    found = await compared(suite_of(NAMES[at], 4), declared=True, folder=tmp_path)
    assert (found.calls > 4, found.refused > 0, list(found.failures)) == (True, True, [])


def test_what_ends_otherwise_is_told() -> None:
    found = Compared(suite="desk")
    found.add([HELD, PASSED], [PASSED, PASSED])
    assert (found.harm, found.harm_of_gateway) == (2, 1)
    (told,) = found.failures
    assert "approval_required (why), kept and by the plane passed (), sent" in told
