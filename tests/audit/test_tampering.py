"""Whatever somebody without the key does to the log, verification finds it and says where."""

from benchmarks.audit.tampering import TAMPERINGS, run


def test_every_kind_of_tampering_is_detected_and_located_in_both_logs() -> None:
    count = 2 * len(TAMPERINGS)
    found = run(count, seed=7)
    assert found["missed"] == []
    assert (found["tried"], found["detected"], found["located"]) == (count, count, count)
