"""Moments that a filter names, and what is said of a filter that cannot be used."""

import re
from datetime import UTC, datetime

_UNITS = {"s": 1, "m": 60, "h": 3600, "d": 86400, "w": 604800}
FIRST_US = -62_135_596_800_000_000
END_US = 253_402_300_800_000_000
"""The years 1 to 9999, which a record's time can be of."""
_DURATION = re.compile(r"(\d{1,9})([smhdw])", re.ASCII)


class QueryError(ValueError):
    """The filter cannot be used; the text says what is wrong and what there is."""


class QueryTooLong(QueryError):
    """The log is too large for what was asked; the text says how to ask for less."""

    def __init__(self, bound_s: float) -> None:
        super().__init__(
            f"given up after {bound_s:g} s: narrow it by --since and --until, or by a server, tool, "
            "principal, verdict, code or run"
        )


def time_us(text: str, now: float) -> int:
    """Read a duration before `now`, or an RFC 3339 time, as microseconds since the epoch.

    Raises:
        QueryError: It is neither.

    """
    found = _time_us(text, now)
    if not FIRST_US <= found < END_US:
        raise QueryError(f"not a time: {text!r} is not within the years 1 to 9999")
    return found


def _time_us(text: str, now: float) -> int:
    if duration := _DURATION.fullmatch(text):
        return round((now - int(duration[1]) * _UNITS[duration[2]]) * 1e6)
    try:
        moment = datetime.fromisoformat(text)
    except ValueError:
        raise QueryError(
            f"not a time: {text!r}; write 90s, 15m, 24h, 7d, 2w or 2026-01-31T12:00:00Z"
        ) from None
    if moment.tzinfo is None:
        moment = moment.replace(tzinfo=UTC)
    return round(moment.timestamp() * 1e6)
