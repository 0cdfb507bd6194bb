"""`Retry-After` is read in both of its forms, and nothing else is taken for it."""

import time
from collections.abc import Iterator

import pytest

from gateway.export.waiting import retry_after_s

NOW = 1_800_000_000.0  # Fri, 15 Jan 2027 08:00:00 GMT


@pytest.fixture(autouse=True)
def somewhere(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Have the machine's own time be another than UTC."""
    with monkeypatch.context() as there:
        there.setenv("TZ", "America/New_York")
        time.tzset()
        yield
    time.tzset()


@pytest.mark.parametrize(
    ("text", "seconds"),
    [
        ("7", 7),
        (" 120 ", 120),
        ("0", 0),
        ("999999999", 999_999_999),
        ("Fri, 15 Jan 2027 08:02:00 GMT", 120),
        ("Friday, 15-Jan-27 08:02:00 GMT", 120),
        ("Fri Jan 15 08:02:00 2027", 120),
        ("Fri, 15 Jan 2027 07:59:59 GMT", 0),
        ("Fri, 15 Jan 2027 25:00:00 GMT", 0),
        ("Fri, 15 Jan 99999 08:00:00 GMT", 0),
        ("-5", 0),
        ("1.5", 0),
        ("\u0667", 0),
        ("1" * 400, 0),
        ("soon", 0),
        ("", 0),
    ],
)
def test_it_is_seconds_or_a_date(text: str, seconds: float) -> None:
    assert retry_after_s({"retry-after": text}, NOW) == seconds


def test_nothing_said_is_nothing_asked() -> None:
    assert retry_after_s({"x-retry-after": "7"}, NOW) == 0
