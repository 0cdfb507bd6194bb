"""What was learned is the same after a restart and from the log anew, and does not grow forever."""

import pytest

from gateway.behaviour import baselines as room
from gateway.behaviour.baselines import Baselines
from gateway.behaviour.deviations import View
from tests.behaviour.life import LEARNING_S, Life, at, fed, learned


def stored(baselines: Baselines) -> dict[str, bytes]:
    return {key: row for key, row in baselines.changes().items() if row is not None}


def test_what_is_restored_is_what_was_learned() -> None:
    life = Life()
    baselines = learned(life)
    fed(baselines, [life.call(at(4, 0, 9) + n, tool=f"t{n}", to=["h1:a"]) for n in range(20)])
    rows = stored(baselines)
    again = Baselines(learning_s=LEARNING_S)
    again.restore(reversed(rows.items()))
    later = life.calls(at(4, 0, 2) + 24 * 3600, 90)
    assert fed(again, later) == fed(baselines, later) != []
    fresh = stored(again)
    assert fresh == {key: stored(baselines)[key] for key in fresh}


def test_learned_anew_from_the_log_it_is_the_same() -> None:
    calls = list(Life().weeks(4))
    one, other = Baselines(learning_s=LEARNING_S), Baselines(learning_s=LEARNING_S)
    fed(one, calls)
    for seen in calls:
        other.learn(seen)
        other.saved()  # whenever it is written down
    other.restore([])
    fed(other, [])
    life = Life()
    again = Baselines(learning_s=LEARNING_S)
    fed(again, life.weeks(4))
    assert stored(again) == stored(one)


def test_what_was_told_is_not_told_again_after_a_restart() -> None:
    life = Life()
    baselines = learned(life)
    assert len(fed(baselines, life.calls(at(4, 0, 9), 130))) == 1
    again = Baselines(learning_s=LEARNING_S)
    again.restore(stored(baselines).items())
    assert fed(again, life.calls(at(4, 0, 10), 300)) == []


def test_only_what_changed_is_to_be_written_down() -> None:
    life = Life()
    baselines = learned(life)
    baselines.saved()
    assert baselines.changes() == {}
    fed(baselines, [life.call(at(4, 0, 9))])
    assert len(baselines.changes()) == 4  # everybody, the principal, the client, the tool


def test_a_state_of_another_layout_is_refused() -> None:
    with pytest.raises(ValueError, match="layout"):
        Baselines(learning_s=1).restore([('["all"]', b"[0]")])


def test_who_was_not_seen_for_longest_is_forgotten(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(room, "MOST", dict.fromkeys(View, 3))
    life = Life()
    baselines = Baselines(learning_s=LEARNING_S)
    fed(baselines, [life.call(at(0, 0, 9) + n, f"p{n}") for n in range(3)])
    fed(baselines, [life.call(at(0, 0, 9) + 5, "p0"), life.call(at(0, 0, 9) + 6, "p3")])
    assert baselines.size() == {"principal": 3, "client": 1, "tool": 3}
    gone = [key for key, row in baselines.changes().items() if row is None]
    assert gone == ['["principal","p1"]', '["tool","p1","mail","search"]']


def test_names_that_a_caller_makes_up_are_not_remembered() -> None:
    life = Life()
    baselines = Baselines(learning_s=LEARNING_S)
    calls = [life.call(at(0, 0, 9) + n, tool=f"x{n}", refused=True) for n in range(400)]
    fed(baselines, calls)
    assert baselines.size()["tool"] == 0
    assert sum(len(row) for row in stored(baselines).values()) < 8000


def test_tools_and_destinations_of_one_principal_are_bounded() -> None:
    life = Life()
    baselines = Baselines(learning_s=LEARNING_S)
    calls = (
        life.call(at(0, n // 500, 9) + n % 500, refused=True, tool=f"t{n}") for n in range(2000)
    )
    fed(baselines, calls)
    fed(baselines, [life.call(at(0, 5, 9) + n / 10, to=[f"h1:{n}"]) for n in range(3000)])
    (profile,) = baselines._known[View.PRINCIPAL].values()
    assert len(profile._tools) == 256
    assert len(profile._destinations) == 1024
    assert "h1:2999" in profile._destinations


def test_how_many_are_known_well_enough_is_told() -> None:
    life = Life()
    baselines = learned(life)
    fed(baselines, [life.call(at(4, 0, 9), "new")])
    assert baselines.learned() == {"principal": 1, "client": 1, "tool": 1}
    assert baselines.size() == {"principal": 2, "client": 1, "tool": 2}
