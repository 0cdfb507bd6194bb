"""Long texts, gone through in steps between which others have the interpreter.

An expression keeps it for as long as it looks, and a text may be made for it: ten milliseconds of each
step are the event loop's wait.
"""

import re
import sys
from collections.abc import Iterator

STEP = 16 * 1024
"""Characters that are gone through at once."""
FURTHEST = 128
"""Characters behind where it begins by which an expression is told to match, with what it looks ahead at."""


def steps_of(text: str) -> Iterator[str]:
    """Yield `text` in steps, cut wherever they end."""
    return (text[at : at + STEP] for at in range(0, len(text), STEP))


def found_in(
    pattern: re.Pattern[str], text: str, at: int = 0, end: int = sys.maxsize
) -> Iterator[re.Match[str]]:
    r"""Yield what `pattern.finditer` yields, if it is told by fewer than `FURTHEST` characters.

    What may be longer says so by `\Z`: there it is cut, and the rest is for whoever asks to look at.
    """
    if len(text) <= STEP:
        return pattern.finditer(text, at, end)
    return _found(pattern, text, at, min(end, len(text)))


def _found(pattern: re.Pattern[str], text: str, at: int, end: int) -> Iterator[re.Match[str]]:
    while at < end:
        beyond = at + STEP
        for found in pattern.finditer(text, at, min(beyond + FURTHEST, end)):
            if found.start() >= beyond:
                break
            at = found.end()
            yield found
        at = max(at, beyond)


def first_in(
    pattern: re.Pattern[str], text: str, at: int = 0, end: int = sys.maxsize
) -> re.Match[str] | None:
    """Return the first of what `found_in` yields."""
    if len(text) <= STEP:
        return pattern.search(text, at, end)
    return next(found_in(pattern, text, at, end), None)


def run_end(run: re.Pattern[str], text: str, at: int) -> int:
    """Return where a run of one kind of characters ends that begins at `at`, which may be nothing."""
    while (found := run.match(text, at, at + STEP + FURTHEST)) and found.end() >= at + STEP:
        at = found.end()
    return at if found is None else found.end()


def pieces_of(text: str, edge: re.Pattern[str]) -> Iterator[str]:
    """Yield `text` in steps that end where `edge` begins."""
    at = 0
    while len(text) - at > STEP and (cut := first_in(edge, text, at + STEP)) is not None:
        yield text[at : cut.start()]
        at = cut.start()
    yield text[at:]
