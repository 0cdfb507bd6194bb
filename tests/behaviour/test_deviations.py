"""What departs from the usual is told once, with what it rests on; the usual never is."""

import pytest

from gateway.behaviour.baselines import MOST_TOLD, Baselines
from gateway.behaviour.deviations import Kind, View
from gateway.behaviour.limits import FLOORS
from tests.behaviour.life import DAY_S, LEARNING_S, Life, at, fed, learned


def kinds(told: list) -> list[str]:  # type: ignore[type-arg]
    return [f"{one.kind}:{one.subject.view}" for one in told]


def test_calls_beyond_what_an_hour_usually_has_are_told_once() -> None:
    life = Life()
    baselines = learned(life)
    first = life.leaf + 1
    (told,) = fed(baselines, life.calls(at(4, 0, 9), 300))
    assert told.kind is Kind.RATE
    assert told.kind.code == "unusual_rate"
    assert told.subject.view is View.PRINCIPAL
    assert told.subject.fields == {"principal": "emma"}
    assert told.seen == FLOORS["rate"] + 1
    assert told.leaf_index == first + FLOORS["rate"]
    assert told.evidence == {
        "view": "principal",
        "usual": {"days": 20, "median": 10, "most": 10, "limit": 120},
        "seen": 121,
        "record": f"r{first + 120}",
        "leaf_index": first + 120,
        "cases": [first, first + 1, first + 2, first + 3, first + 4],
    }
    assert told.message == (
        "emma: 121 calls in an hour; on 20 days it was 10 as a rule and 10 at most"
    )


def test_the_same_is_told_again_on_another_day_only() -> None:
    life = Life()
    baselines = learned(life)
    assert len(fed(baselines, life.calls(at(4, 0, 9), 300))) == 1
    assert fed(baselines, life.calls(at(4, 0, 10), 300)) == []
    assert len(fed(baselines, life.calls(at(4, 1, 9), 300))) == 1


def test_who_is_busy_every_day_may_be() -> None:
    life = Life()
    baselines = Baselines(learning_s=LEARNING_S)
    for day in range(20):
        assert fed(baselines, life.calls(at(0, day, 9), 100)) == []
    assert fed(baselines, life.calls(at(0, 20, 9), 240)) == []
    assert kinds(fed(baselines, life.calls(at(0, 21, 9), 700))) == ["rate:principal"]


def test_one_odd_day_does_not_move_what_is_usual() -> None:
    life = Life()
    baselines = learned(life)
    fed(baselines, life.calls(at(4, 0, 9), 121))
    (told,) = fed(baselines, life.calls(at(4, 1, 9), 300))
    assert told.usual["median"] == 10


def test_tools_that_were_never_used_are_told_with_their_names() -> None:
    life = Life()
    baselines = learned(life)
    told = fed(baselines, [life.call(at(4, 0, 9) + n, tool=f"t{n}") for n in range(20)])
    assert kinds(told) == ["tool:principal"]
    assert told[0].seen == FLOORS["tool"] + 1
    assert list(told[0].names) == [f"mail/t{number}" for number in range(5)]
    assert told[0].evidence["new"] == list(told[0].names)


def test_a_tool_that_was_used_is_not_new_the_next_day() -> None:
    life = Life()
    baselines = learned(life)
    scan = [life.call(at(4, 0, 9) + n, tool=f"t{n}") for n in range(20)]
    fed(baselines, scan)
    again = [life.call(at(4, 1, 9) + n, tool=f"t{n}") for n in range(20)]
    assert fed(baselines, again) == []


def test_destinations_that_were_never_sent_to_are_told_with_their_hashes() -> None:
    life = Life()
    baselines = Baselines(learning_s=LEARNING_S)
    fed(baselines, (life.call(at(0, d, 9) + n, to=["h1:a"]) for d in range(20) for n in range(9)))
    told = fed(baselines, [life.call(at(0, 21, 9) + n, to=[f"h1:{n}"]) for n in range(19)])
    assert kinds(told) == ["destination:principal"]
    assert list(told[0].names) == [f"h1:{number}" for number in range(5)]


def test_one_new_destination_of_a_settled_sender_is_enough() -> None:
    life = Life()
    baselines = Baselines(learning_s=LEARNING_S)
    for day in range(30):
        calls = [life.call(at(0, day, 9) + n, to=["h1:a"]) for n in range(20)]
        assert fed(baselines, calls) == []
    told = fed(baselines, [life.call(at(0, 30, 9), to=["h1:b"])])
    assert kinds(told) == ["destination:principal"]


def test_one_new_destination_of_whoever_sends_little_is_not() -> None:
    life = Life()
    baselines = Baselines(learning_s=LEARNING_S)
    for day in range(30):
        calls = [life.call(at(0, day, 9) + n, to=["h1:a"]) for n in range(16)]
        assert fed(baselines, calls) == []
    assert fed(baselines, [life.call(at(0, 30, 9), to=["h1:b"])]) == []


def test_destinations_under_a_new_key_of_hashes_are_not_new() -> None:
    life = Life()
    baselines = Baselines(learning_s=LEARNING_S)
    fed(baselines, (life.call(at(0, d, 9) + n, to=["h1:a"]) for d in range(20) for n in range(9)))
    rotated = [life.call(at(0, 21, 9) + n, to=[f"h2:{n}"]) for n in range(19)]
    assert fed(baselines, rotated) == []


def test_a_destination_of_which_only_the_server_is_known_is_told_at_once() -> None:
    life = Life()
    baselines = Baselines(learning_s=LEARNING_S)
    for day in range(30):
        fed(baselines, [life.call(at(0, day, 9) + n, to=["mail"]) for n in range(20)])
    assert kinds(fed(baselines, [life.call(at(0, 30, 9), to=["chat"])])) == [
        "destination:principal"
    ]


def test_refusals_are_told_where_their_share_has_grown() -> None:
    life = Life()
    baselines = learned(life)
    first = life.leaf + 1
    told = fed(baselines, [life.call(at(4, 0, 9) + n, refused=True) for n in range(40)])
    assert kinds(told) == ["refusals:principal"]
    assert told[0].seen == FLOORS["refusals"] + 1
    assert list(told[0].cases) == list(range(first, first + 5))


def test_more_refusals_among_many_more_calls_are_not_told() -> None:
    life = Life()
    baselines = learned(life)
    calls = [life.call(at(4, 0, 9 + n // 50) + n % 50, refused=n % 10 == 0) for n in range(300)]
    assert fed(baselines, calls) == []


def test_calls_at_an_hour_without_any_before_are_told() -> None:
    life = Life()
    baselines = learned(life)
    told = fed(baselines, life.calls(at(4, 0, 2), 40))
    assert kinds(told) == ["hour:principal"]
    assert told[0].usual == {"days": 20, "hours": [9, 10, 11]}
    assert told[0].message == (
        "emma: 30 calls between 02:00 and 02:59 UTC, far from the usual hours of 20 days"
    )


@pytest.mark.parametrize("hour", [6, 12, 14])
def test_calls_close_to_the_usual_hours_are_not_told(hour: int) -> None:
    life = Life()
    assert fed(learned(life), life.calls(at(4, 0, hour), 40)) == []


def test_usual_hours_on_a_day_of_the_week_without_any_are_not_told() -> None:
    life = Life()
    assert fed(learned(life), life.calls(at(3, 5, 10), 40)) == []


def test_a_few_calls_at_night_are_not_told() -> None:
    life = Life()
    assert fed(learned(life), life.calls(at(4, 0, 2), 29)) == []


def test_one_tool_that_is_used_more_is_told_though_all_together_are_not_more() -> None:
    life = Life()
    baselines = Baselines(learning_s=LEARNING_S)
    for day in range(20):
        fed(baselines, life.calls(at(0, day, 9), 200))
        fed(baselines, life.calls(at(0, day, 10), 6, tool="send"))
    told = fed(baselines, life.calls(at(0, 20, 10), 150, tool="send"))
    assert kinds(told) == ["rate:tool"]
    assert told[0].subject.fields == {"principal": "emma", "server": "mail", "target": "send"}


def test_a_client_of_which_many_users_call_a_little_more_is_told_of() -> None:
    life = Life()
    baselines = Baselines(learning_s=LEARNING_S)
    names = [f"p{number}" for number in range(20)]
    for day in range(20):
        for name in names:
            assert fed(baselines, [life.call(at(0, day, 9) + n, name) for n in range(10)]) == []
    calls = [life.call(at(0, 20, 9) + n, name) for n in range(50) for name in names]
    told = fed(baselines, calls)
    assert kinds(told) == ["rate:client"]
    assert told[0].subject.fields == {"client": "desktop"}


def test_what_was_told_of_a_principal_is_not_told_of_the_client_again() -> None:
    life = Life()
    baselines = learned(life)
    assert kinds(fed(baselines, life.calls(at(4, 0, 9), 900))) == ["rate:principal"]


def test_nothing_is_told_of_somebody_new() -> None:
    life = Life()
    baselines = learned(life)
    assert fed(baselines, life.calls(at(4, 0, 9), 50, "new", client="new")) == []
    assert fed(baselines, life.calls(at(4, 1, 9), 700, "new", client="new")) == []


def test_nothing_is_told_before_the_learning_time_is_over() -> None:
    life = Life()
    baselines = Baselines(learning_s=60 * DAY_S)
    fed(baselines, life.weeks(4))
    assert fed(baselines, life.calls(at(4, 0, 2), 700)) == []


def test_nothing_is_told_of_whoever_has_called_little() -> None:
    life = Life()
    baselines = Baselines(learning_s=LEARNING_S)
    fed(baselines, (life.call(at(0, day, 9)) for day in range(30)))
    assert fed(baselines, life.calls(at(0, 30, 2), 60)) == []


def test_a_common_cause_of_unusual_hours_is_not_told() -> None:
    life = Life()
    baselines = Baselines(learning_s=LEARNING_S)
    names = [f"p{number}" for number in range(12)]
    for day in range(20):
        for name in names:
            fed(baselines, [life.call(at(0, day, 9) + n, name, client=name) for n in range(10)])
    shifted = [life.call(at(0, 20, 20) + n, name, client=name) for n in range(50) for name in names]
    assert fed(baselines, shifted) == []


def test_of_one_kind_only_so_many_are_told_in_a_day() -> None:
    life = Life()
    baselines = Baselines(learning_s=LEARNING_S)
    names = [f"p{number}" for number in range(30)]
    for day in range(20):
        for name in names:
            fed(baselines, [life.call(at(0, day, 9) + n, name, client=name) for n in range(10)])
    wave = [
        life.call(at(0, 20, 9) + n, name, client=name, refused=True)
        for name in names
        for n in range(40)
    ]
    wave.sort(key=lambda one: one.time)
    assert len(fed(baselines, wave)) == MOST_TOLD
