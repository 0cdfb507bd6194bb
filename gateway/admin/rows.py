"""The form of what use cases return: plain JSON objects."""

from datetime import UTC, datetime
from typing import Any

Row = dict[str, Any]
Rows = list[Row]


def rfc3339(time: float | None) -> str | None:
    """Return seconds since the epoch as UTC text with milliseconds."""
    if time is None:
        return None
    text = datetime.fromtimestamp(time, UTC).isoformat(timespec="milliseconds")
    return text.replace("+00:00", "Z")
