"""A story's steps: each says what it expects, and ends the story if it does not hold."""

import time
from collections.abc import Callable


class Failed(Exception):
    """A step did not do what it says."""


def expect(what: str, holds: object) -> None:
    """Print the step and go on if it holds."""
    print(f"  {'ok  ' if holds else 'FAIL'} {what}", flush=True)
    if not holds:
        raise Failed(what)


def until(what: str, holds: Callable[[], object], patience_s: float = 120.0) -> None:
    """Go on as soon as it holds."""
    deadline = time.monotonic() + patience_s
    while time.monotonic() < deadline:
        if holds():
            break
        time.sleep(0.2)
    expect(what, holds())
