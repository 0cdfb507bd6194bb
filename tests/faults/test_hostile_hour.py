"""A shorter hour of hostile callers: the process stays as small as it is promised to stay."""

from pathlib import Path

from benchmarks.hardening.hour import MOST_MIB, Size, part_of, played

SHORT = Size(
    principals=2, names=16, bodies=8, failures=3, readers=8, sessions=5, cuts=3
)  # fmt: skip
MOST_GROWN_MIB = 180
"""Twice what an hour of this size takes; what a longer one takes is hardly more."""


def test_a_hostile_hour_takes_no_more_memory_than_is_promised(tmp_path: Path) -> None:
    hour, start = played(tmp_path, SHORT)
    part = part_of(hour, start)
    assert part.failures == []
    assert 0 < part.figures["hour.peak_rss_mib"] < MOST_MIB
    assert part.figures["hour.peak_rss_mib"] - start < MOST_GROWN_MIB
    assert part.figures["hour.requests"] > SHORT.principals * SHORT.names
