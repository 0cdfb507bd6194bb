"""`make desk-report` visits every page, and fails where one is slower than is promised."""

from benchmarks.desk import report


async def test_every_page_is_visited_and_measured(tmp_path, monkeypatch) -> None:
    monkeypatch.setattr(report, "TOOLS", 3)
    monkeypatch.setattr(report, "QUESTIONS", 3)
    figures = await report.run(tmp_path, rows=2_000, times=1)
    told = {name.rpartition(".")[0] for name in figures}
    assert told == {*report._PAGES, "audit query", "pins"}


def test_a_page_that_is_slower_than_promised_fails() -> None:
    assert report.failures_of({"now.p95_ms": 149.0, "now.p50_ms": 900.0, "pins.first_s": 9.0}) == []
    (told,) = report.failures_of({"now.p95_ms": 151.0})
    assert told.startswith("now: 151 ms")


def test_calls_that_become_slower_while_people_click_fail() -> None:
    assert report.failures_of({"calls.ratio": 1.1}) == []
    (told,) = report.failures_of({"calls.ratio": 1.2})
    assert told.startswith("calls take 1.20 times as long")


def test_a_percentile_is_one_of_the_times_that_were_taken() -> None:
    assert report.percentile([4.0, 1.0, 3.0, 2.0], 0.95) == 4.0
    assert report.percentile([1.0], 0.5) == 1.0
