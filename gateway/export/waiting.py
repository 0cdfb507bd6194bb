"""How long an answer asks us to wait (RFC 9110 section 10.2.3)."""

from collections.abc import Mapping
from datetime import UTC
from email.utils import parsedate_to_datetime

_MOST_DIGITS = 9


def retry_after_s(headers: Mapping[str, str], now: float) -> float:
    """Return the seconds that `Retry-After` says, in either form; 0 if it says nothing.

    The names of `headers` are in lower case; `now` is in seconds since the epoch.
    """
    text = headers.get("retry-after", "").strip()
    if text.isascii() and text.isdecimal():
        return float(text) if len(text) <= _MOST_DIGITS else 0.0
    try:
        then = parsedate_to_datetime(text)
        # The oldest of the three forms of a date names no zone; it is in UTC like the others.
        return max((then if then.tzinfo else then.replace(tzinfo=UTC)).timestamp() - now, 0.0)
    except (ValueError, OverflowError):
        return 0.0
