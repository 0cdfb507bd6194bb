"""Records that come late, and clocks that leap, alarm nobody."""

from tests.behaviour.life import DAY_S, HOUR_S, Life, at, fed, learned


def test_records_that_come_late_are_not_counted() -> None:
    life = Life()
    baselines = learned(life)
    fed(baselines, [life.call(at(4, 0, 12))])
    assert fed(baselines, life.calls(at(4, 0, 9), 700)) == []
    assert fed(baselines, life.calls(at(4, 0, 12), 50)) == []


def test_a_clock_that_was_set_back_silences_a_day_and_no_more() -> None:
    life = Life()
    baselines = learned(life)
    fed(baselines, [life.call(at(500, 0, 9))])  # years ahead
    fed(baselines, life.calls(at(4, 0, 9), 10))
    fed(baselines, life.calls(at(4, 0, 10), 10))
    assert fed(baselines, life.calls(at(4, 1, 9), 700)) == []
    assert len(fed(baselines, life.calls(at(4, 2, 9), 700))) == 1


def test_after_a_long_absence_nothing_is_told_for_a_day() -> None:
    life = Life()
    baselines = learned(life)
    back = at(4, 0, 9) + 10 * DAY_S
    assert fed(baselines, life.calls(back + 6 * HOUR_S, 700)) == []
    assert fed(baselines, life.calls(back + 24 * HOUR_S, 50)) == []
    assert len(fed(baselines, life.calls(back + 49 * HOUR_S, 700))) == 1


def test_who_is_first_seen_by_a_clock_that_is_ahead_is_learned_all_the_same() -> None:
    life = Life()
    baselines = learned(life)
    fed(baselines, [life.call(at(500, 0, 9), "bob")])
    fed(baselines, life.weeks(5, since=at(4, 0, 0)))
    fed(baselines, life.weeks(4, "bob", since=at(9, 0, 0)))
    (told,) = fed(baselines, life.calls(at(13, 0, 9), 700, "bob"))
    assert told.subject.principal == "bob"


def test_a_record_a_little_late_is_counted() -> None:
    life = Life()
    baselines = learned(life)
    fed(baselines, [life.call(at(4, 0, 9) + 250)])
    assert len(fed(baselines, [life.call(at(4, 0, 9)) for _ in range(121)])) == 1
