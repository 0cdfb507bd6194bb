"""What is made of the user's words is made once: every call of a task is judged by the same ones."""

from collections.abc import Callable
from functools import lru_cache, wraps
from typing import Final, TypeVar

LONGEST_PROMPT: Final = 32 * 1024
"""Characters that are read."""
_LATEST: Final = 4

Made = TypeVar("Made")


def heard(make: Callable[[str], Made]) -> Callable[[str], Made]:
    """Remember what `make` makes of the latest few prompts, of which no more than this is read."""

    @lru_cache(maxsize=_LATEST)
    def made(prompt: str) -> Made:
        return make(prompt)

    @wraps(make)
    def of(prompt: str) -> Made:
        return made(prompt[:LONGEST_PROMPT])

    return of
