"""`make alerts-report` is the same each time, and fails where it is loud or blind."""

import pytest

from benchmarks.alerts.incidents import INCIDENTS
from benchmarks.alerts.report import LEAST_FOUND, MOST_ALARMS, Month, failures_of, figures_of, month


@pytest.fixture(scope="module")
def small() -> Month:
    return month(21, 20)


@pytest.mark.full
def test_a_small_organisation_is_quiet_and_its_incidents_are_found(small: Month) -> None:
    assert small.alarms.total() <= 4
    found = [name for name, share in small.found.items() if share >= LEAST_FOUND]
    assert len(found) >= 11


@pytest.mark.full
def test_every_incident_has_its_figure(small: Month) -> None:
    figures = figures_of([small])
    assert {f"found.{play.__name__}" for play, _, _ in INCIDENTS} <= figures.keys()
    assert len(INCIDENTS) == 12


@pytest.mark.full
def test_the_same_seed_is_the_same_month() -> None:
    one, other = month(22, 5), month(22, 5)
    assert (one.alarms, one.found, one.calls, one.octets) == (
        other.alarms,
        other.found,
        other.calls,
        other.octets,
    )


def test_too_many_alarms_and_missed_incidents_are_failures() -> None:
    figures = {
        "alarms_per_100_principals_week": MOST_ALARMS + 1,
        "found.at_night": LEAST_FOUND - 0.1,
        "found.tool_scan": 1.0,
    }
    assert failures_of(figures) == [
        "2.0 alarms per 100 principals and week, promised 1",
        "at_night: found for 70% of the victims",
    ]
