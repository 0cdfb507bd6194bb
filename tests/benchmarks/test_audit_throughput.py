"""The benchmark of durable records measures what it says; its figures are not judged here."""

from pathlib import Path

from benchmarks.audit.throughput import all_of, group_commit


def test_every_way_of_confirming_is_measured(tmp_path: Path) -> None:
    found = all_of(tmp_path, seconds=0.1)
    assert list(found) == ["fsync", "group_commit", "one_commit_a_record", "segment_file"]
    for figures in found.values():
        assert list(figures) == ["records", "per_s", "p50_ms", "p99_ms"]
        assert figures["records"] > 0
        assert 0 < figures["p50_ms"] <= figures["p99_ms"]
    assert list(tmp_path.iterdir()) == []


def test_producers_share_their_waits(tmp_path: Path) -> None:
    def gained() -> bool:
        alone = group_commit(tmp_path, 0.2, producers=1)
        together = group_commit(tmp_path, 0.2, producers=32)
        return bool(together["records"] > alone["records"])

    assert any(
        gained() for _ in range(5)
    )  # a machine that does something else for a while is no answer
