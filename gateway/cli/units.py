"""Times, spans and counts as people read them; `--json` and `--wide` have them exactly."""

import time
from collections.abc import Mapping
from datetime import UTC, datetime
from typing import Any

_UNITS = ((86_400, "d"), (3_600, "h"), (60, "m"))


def span(seconds: float | None) -> str:
    """Return a span in its largest whole unit: `45s`, `12m`, `3h`, `9d`."""
    if seconds is None:
        return "-"
    for size, unit in _UNITS:
        if seconds >= size:
            return f"{int(seconds // size)}{unit}"
    return f"{max(int(seconds), 0)}s"


def age(moment: str | None) -> str:
    """Return how long ago a time was: `12m`."""
    found = _seconds(moment)
    return "-" if found is None else span(time.time() - found)


def left(moment: str | None) -> str:
    """Return how long it is until a time: `45m`, or `over`."""
    found = _seconds(moment)
    if found is None:
        return "-"
    seconds = found - time.time()
    return span(seconds) if seconds > 0 else "over"


def clock(moment: str | None) -> str:
    """Return a time, UTC, without its year and parts of a second: `11-22 23:49:57`."""
    return "-" if not isinstance(moment, str) else moment[5:19].replace("T", " ")


def counts(content: Mapping[str, int] | None) -> str:
    """Return what there is of each: `20 pending, 1 drifted`."""
    if not isinstance(content, dict):
        return "-"
    return ", ".join(f"{number} {name}" for name, number in content.items() if number) or "none"


def _seconds(moment: Any) -> float | None:
    if not isinstance(moment, str):
        return None
    found = datetime.fromisoformat(moment)
    return (found if found.tzinfo else found.replace(tzinfo=UTC)).timestamp()
