"""A short run of `make replicas-report`: two gateways, and each of what there is to be killed once."""

from pathlib import Path

import pytest

from benchmarks.replicas import faults
from benchmarks.replicas.faults import Plan
from benchmarks.replicas.judge import problems
from benchmarks.replicas.load import ASKED
from benchmarks.replicas.play import played
from benchmarks.replicas.report import KILLS, SHARES, plans


def test_two_gateways_the_log_and_postgresql_are_killed_and_keep_their_word(
    tmp_path: Path,
) -> None:
    plan = Plan(seed=37, gateways=2, kills=3, policies=False, calls_per_s=100.0)
    kinds = [fault.kind for fault in plan.faults()]
    assert sorted(kinds) == sorted([faults.GATEWAY, faults.HOLDER, faults.POSTGRES])
    outcome = played(tmp_path / "played", plan)
    assert outcome.problems == []
    assert [fault.ends for fault in plan.faults()] == ["", "pin", "stop"]
    # Where everything was stopped it is a person that calls wait for.
    assert (outcome.borne, len(outcome.recoveries)) == (3, 2)

    # It can say no: the same log, but for one record of a call that was carried.
    carried = next(one for one in outcome.history.calls if one.answer == "result")
    log = outcome.log
    log.records[:] = [one for one in log.records if one.trace != carried.trace]
    found = problems(outcome.history, log, asking=ASKED)
    assert f"acknowledged, but not in the log: {carried.trace}, its intent and outcome" in found


def test_a_plan_is_the_same_for_the_same_seed_and_another_for_another() -> None:
    plan = Plan(seed=7, gateways=4, kills=40, cuts=8, clocks=4, stops=1)
    assert plan.faults() == plan.faults()
    assert plan.faults() != Plan(seed=8, gateways=4, kills=40, cuts=8, clocks=4, stops=1).faults()
    kinds = [fault.kind for fault in plan.faults()]
    assert {kind: kinds.count(kind) for kind in sorted(set(kinds))} == {
        faults.CLOCK: 4,
        faults.CUT: 4,
        faults.GATEWAY: 14,
        faults.HOLDER: 14,
        faults.LANE: 2,
        faults.POSTGRES: 10,
        faults.SILENT: 4,
        faults.STOPPED: 1,
    }
    assert {fault.ends for fault in plan.faults()} == {"", "pin", "stop", "policy"}


@pytest.mark.parametrize("gateways", [(2, 4, 8), (2,), (2, 3)])
def test_all_kills_together_are_as_many_as_were_asked_for(gateways: tuple[int, ...]) -> None:
    assert sum(SHARES) == pytest.approx(1)
    made = plans(1, KILLS, gateways, stopped_s=60.0)
    assert sum(plan.kills for plan in made) == KILLS
    assert [plan.gateways for plan in made] == list(gateways)
    assert all(plan.stops and plan.clocks and plan.cuts >= len(faults.WAYS) for plan in made)
