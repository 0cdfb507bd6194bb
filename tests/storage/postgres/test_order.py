"""The order of the log: of each lane by its numbers, of all by the database's clock."""

from datetime import UTC, datetime, timedelta

from gateway.storage.postgres.order import Waiting, in_order

AT = datetime(2026, 1, 1, tzinfo=UTC)


def waiting(lane: int, n: int, second: float) -> Waiting:
    return Waiting(lane=lane, n=n, put_at=AT + timedelta(seconds=second), leaf=b"")


def ordered(*found: Waiting, most: int = 10) -> list[tuple[int, int]]:
    return [(one.lane, one.n) for one in in_order(found, most=most)]


def test_it_is_by_time_over_all_lanes() -> None:
    assert ordered(waiting(1, 1, 3), waiting(2, 7, 1), waiting(1, 2, 4), waiting(2, 9, 3.5)) == [
        (2, 7),
        (1, 1),
        (2, 9),
        (1, 2),
    ]


def test_a_clock_that_jumps_back_turns_no_lane_around() -> None:
    assert ordered(waiting(1, 2, 1), waiting(1, 1, 5), waiting(2, 1, 3)) == [
        (2, 1),
        (1, 1),
        (1, 2),
    ]


def test_where_a_lane_is_cut_what_was_put_later_waits_too() -> None:
    """It may have come of what was not looked at yet."""
    cut = (waiting(1, 1, 1), waiting(1, 2, 2))
    assert ordered(*cut, waiting(2, 1, 1.5), waiting(2, 2, 3), most=2) == [(1, 1), (2, 1), (1, 2)]
    assert ordered(*cut, waiting(2, 1, 3), most=3) == [(1, 1), (1, 2), (2, 1)]


def test_nothing_is_nothing() -> None:
    assert ordered() == []
