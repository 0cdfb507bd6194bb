"""`make replicas-report` goes red for each thing that many gateways promise, and where it shows nothing."""

from collections.abc import Callable
from dataclasses import replace

import pytest

from benchmarks.replicas.history import NOTHING, RESULT, Call, Ended, History, Log, Recorded, Yes
from benchmarks.replicas.judge import problems, unshown

TOOL, ASKED = "allowed", "located"


def call(trace: str, answer: str = RESULT, *, tool: str = TOOL, begun_s: float = 10.0) -> Call:
    return Call(
        trace=trace,
        client="c",
        tool=tool,
        at=1,
        begun_s=begun_s,
        ended_s=begun_s + 1,
        answer=answer,
    )


def recorded(trace: str, kind: str, leaf_index: int, **more: str) -> Recorded:
    name = f"{trace}-{kind}-{leaf_index}"
    return Recorded(id=name, kind=kind, trace=trace, decision=trace, leaf_index=leaf_index, **more)


def history() -> History:
    """What is remembered of a call, of one that was refused, and of one that a person has allowed."""
    return History(
        calls=[call("a"), call("b", "denied"), call("y", tool=ASKED), call("n", NOTHING)],
        sent={"a": [10.5], "y": [10.5]},
        ended=[Ended(what="pin", tool=TOOL, since_s=20.0, until_s=30.0)],
        yeses=[Yes(id="yes", over=True)],
    )


def log() -> Log:
    records = [
        recorded("a", "intent", 0),
        recorded("a", "outcome", 1),
        recorded("b", "outcome", 2, code="denied"),
        recorded("y", "intent", 3, approval="yes"),
        recorded("y", "outcome", 4),
    ]
    return Log(records=records, size=5, signed=5)


def judged(found: History, there: Log) -> list[str]:
    return problems(found, there, asking=ASKED)


def test_what_is_as_it_should_be_is_no_problem() -> None:
    assert judged(history(), log()) == []


def test_what_was_given_out_and_then_taken_back_is_two_records_and_no_problem() -> None:
    found, there = history(), log()
    found.calls[0] = call("a", "policy_stopped")
    there.records.append(recorded("a", "outcome", 5, code="policy_stopped"))
    there.size = there.signed = 6
    assert judged(found, there) == []


def without(there: Log, place: int) -> None:
    """Lose a record, with its leaf."""
    del there.records[place]
    there.records[:] = [replace(one, leaf_index=n) for n, one in enumerate(there.records)]
    there.size = there.signed = len(there.records)


def also(there: Log, one: Recorded) -> None:
    there.records.append(replace(one, leaf_index=there.size))
    there.size = there.signed = len(there.records)


def again(there: Log, place: int) -> None:
    also(there, there.records[place])


def outside(there: Log) -> None:
    there.records.append(recorded("z", "outcome", 7))


def unsigned(there: Log) -> None:
    there.signed -= 1


def left(there: Log) -> None:
    there.left = 1


def turned_around(there: Log) -> None:
    intent, outcome = there.records[:2]
    there.records[:2] = [replace(outcome, leaf_index=0), replace(intent, leaf_index=1)]


def altered(there: Log) -> None:
    there.altered.append("gateway 1: altered")


@pytest.mark.parametrize(
    ("change", "problem"),
    [
        (lambda one: without(one, 1), "acknowledged, but not in the log: a, its outcome"),
        (lambda one: without(one, 2), "acknowledged, but not in the log: b, its refusal denied"),
        (lambda one: without(one, 0), "sent, but not recorded: a"),
        (lambda one: again(one, 1), "there twice: record a-outcome-1"),
        (
            lambda one: also(one, recorded("a", "intent", 9)),
            "there twice: a, intent, outcome, intent",
        ),
        (
            lambda one: also(one, replace(recorded("b", "auth", 9), decision="other")),
            "there twice: b, decided twice",
        ),
        (
            lambda one: also(one, recorded("a", "outcome", 9, code="client_gone")),
            "acknowledged, but not in the log: a, of which the log says ['client_gone']",
        ),
        (outside, "out of the tree: 6 records for the 5 leaves of the tree"),
        (unsigned, "out of the tree: 1 records are not signed"),
        (left, "out of the tree: 1 records are durable and have no place"),
        (turned_around, "an effect before its cause: a"),
        (altered, "the log does not verify: gateway 1: altered"),
        (
            lambda one: also(one, recorded("w", "intent", 9, approval="yes")),
            "a yes: yes was used 2 times",
        ),
        (
            lambda one: also(one, recorded("w", "intent", 9, approval="no")),
            "a yes: no was used, and nobody has said it",
        ),
    ],
)
def test_a_log_that_is_not_as_promised_is_a_problem(
    change: Callable[[Log], None], problem: str
) -> None:
    there = log()
    change(there)
    assert problem in judged(history(), there)


def test_a_call_without_a_yes_and_a_yes_that_nobody_used_are_problems() -> None:
    there = log()
    there.records[3] = replace(there.records[3], approval="")
    assert judged(history(), there) == [
        "a yes: yes is gone, and no call went out by it",
        "a yes: y went out without one",
    ]


def test_a_call_that_was_sent_twice_is_a_problem() -> None:
    found = history()
    found.sent["a"].append(10.6)
    assert judged(found, log()) == ["there twice: a, sent 2 times"]


LATE = "decided on what had ended: pin: a of allowed at 1, 1.000 s later"


@pytest.mark.parametrize(
    ("begun_s", "answer", "sent_s", "expected"),
    [
        (21.0, RESULT, 21.5, [LATE]),
        (21.0, "upstream_failed", 21.5, [LATE]),
        (21.0, NOTHING, 21.5, [LATE]),
        (19.0, RESULT, 21.5, []),  # it began before
        (21.0, NOTHING, 31.0, []),  # it was sent when the definition was approved again
        (31.0, RESULT, 31.5, []),
    ],
)
def test_a_call_that_began_when_something_had_ended_and_was_sent_is_a_problem(
    begun_s: float, answer: str, sent_s: float, expected: list[str]
) -> None:
    found, there = history(), log()
    found.calls[0] = call("a", answer, begun_s=begun_s)
    found.sent["a"] = [sent_s]
    there.records[1] = replace(there.records[1], code="" if answer == RESULT else answer)
    assert judged(found, there) == expected


def test_what_ended_for_another_client_or_tool_ended_for_nobody_else() -> None:
    found = history()
    span = Ended(what="label", tool=TOOL, client="another", since_s=5.0)
    found.ended += [span, Ended(what="policy", tool="another", since_s=5.0)]
    assert judged(found, log()) == []
    span.client = "c"
    assert len(judged(found, log())) == 1


def test_a_run_that_shows_nothing_says_so() -> None:
    assert unshown(History(), whats=["pin"], yes=True) == [
        "no call was carried, so nothing could be lost",
        "no call was tried while its pin had ended",
        "no yes was used",
    ]
    found = history()
    assert unshown(found, whats=["pin"], yes=True) == ["no call was tried while its pin had ended"]
    found.calls.append(call("late", "pin_revoked", begun_s=25.0))
    assert unshown(found, whats=["pin"], yes=True) == []


def test_recovery_is_the_first_call_that_began_after_the_fault_and_was_carried_there() -> None:
    found = History(calls=[call("a", begun_s=1.0), call("b", NOTHING, begun_s=3.0)])
    assert found.carried(1, 2.0) is None
    found.calls += [call("c", begun_s=4.0), call("d", begun_s=6.0)]
    assert (found.carried(1, 2.0), found.carried(2, 2.0)) == (5.0, None)
