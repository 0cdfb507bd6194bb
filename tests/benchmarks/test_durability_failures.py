"""`make durability-report` fails where something acknowledged is gone, and where it proves nothing."""

from collections import Counter, defaultdict

import pytest

from benchmarks.durability.cuts import Losses
from benchmarks.durability.kills import Survival
from benchmarks.durability.report import failures_of
from gateway.storage.connection import Durability

BOTH = [("intent", "d_1"), ("outcome", "d_1")]
FULL = Losses(durability=Durability.POWER, cuts=10)
NORMAL = Losses(durability=Durability.PROCESS, cuts=10, losing=9)


def survival(
    *records: tuple[str, str], answered: bool = True, sent: int = 1, odd: tuple[str, ...] = ()
) -> Survival:
    """What became of one call, `c`."""
    return Survival(
        began={"c"},
        answered={"c"} if answered else set(),
        records=defaultdict(list, {"c": list(records)} if records else {}),
        forwarded=Counter({"c": sent} if sent else {}),
        odd=list(odd),
    )


def test_all_that_was_answered_is_there() -> None:
    assert failures_of(survival(*BOTH), [FULL, NORMAL]) == []


def test_an_outcome_that_came_too_late_and_the_one_that_says_so_are_no_failure() -> None:
    late = survival(*BOTH, ("refused", "d_1"), answered=False)
    late.answered.add("another")
    late.records["another"] = BOTH
    assert failures_of(late, [FULL, NORMAL]) == []
    assert late.open_intents == 0


@pytest.mark.parametrize(
    ("found", "failure"),
    [
        (survival(BOTH[0]), "answered, but not in the log: c"),
        (survival(BOTH[1]), "sent, but not recorded: c"),
        (survival(*BOTH, BOTH[1]), "there twice: c"),
        (survival(BOTH[0], ("outcome", "d_2")), "there twice: c"),
        (survival(*BOTH, sent=2), "there twice: c"),
        (survival(*BOTH, odd=("a refusal",)), "an answer that says nothing: a refusal"),
        (survival(answered=False, sent=0), "no call was answered, so nothing could be lost"),
    ],
)
def test_what_a_kill_must_not_do_is_a_failure(found: Survival, failure: str) -> None:
    assert any(one.startswith(failure) for one in failures_of(found, [FULL, NORMAL]))


def test_a_call_that_was_under_way_is_no_failure_and_is_counted() -> None:
    found = survival(BOTH[0], answered=False)
    found.answered.add("another")
    found.records["another"] = BOTH
    assert failures_of(found, [FULL, NORMAL]) == []
    assert found.open_intents == 1


def test_a_power_cut_that_loses_records_is_a_failure_and_so_is_one_that_can_show_nothing() -> None:
    losing = Losses(durability=Durability.POWER, cuts=10, losing=2)
    idle = Losses(durability=Durability.PROCESS, cuts=10)
    broken = Losses(durability=Durability.PROCESS, cuts=10, losing=1, broken=["cut at operation 7"])
    assert failures_of(survival(*BOTH), [losing, idle]) == [
        "2 power cuts lost acknowledged records",
        "no cut lost anything with `process`: the cuts show nothing",
    ]
    assert failures_of(survival(*BOTH), [FULL, broken]) == ["process: cut at operation 7"]
