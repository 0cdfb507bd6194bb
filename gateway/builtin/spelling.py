"""Names that differ from one that was asked for as a slip of the hand does (pure)."""

import re
from collections.abc import Iterable, Sequence
from typing import Final

_SHORT: Final = 6
"""Characters of a tool's own name below which two slips make another word."""
_SHORTEST: Final = 3
_LONGEST: Final = 100
"""Characters of a name that is looked for by its parts."""


def parts_of(name: str) -> str:
    """Return a pattern, in RE2's syntax, that is found in whatever is near to `name`.

    A slip spoils two neighbouring parts of a name at most: one of more parts is left as it was, or
    where a name has too few its ends are. Empty where the name is too short, or too long.
    """
    own = _own(name)
    if not _SHORTEST <= len(own) <= _LONGEST:
        return ""
    size = max(2, -(-len(own) // (2 * _slips(own) + 1)))
    parts = {re.escape(own[start : start + size]) for start in range(0, len(own), size)}
    ends = rf"\b{re.escape(own[0])}\w{{1,{len(own)}}}{re.escape(own[-1])}\b"
    return "|".join((*sorted(part for part in parts if len(part) > 1), ends))


def nearest(name: str, others: Iterable[str]) -> Sequence[str]:
    """Return those of `others` that are fewest slips from `name`, if they are few."""
    most, plain = _slips(_own(name)), name.casefold()
    # Of one letter more or less each is a slip, so a name of a megabyte is not gone through.
    known = [one for one in others if abs(len(one.casefold()) - len(plain)) <= most]
    for slips in range(1, most + 1):
        if found := [one for one in known if _within(plain, one.casefold(), slips)]:
            return found
    return ()


def _own(name: str) -> str:
    return name.rpartition("__")[2]


def _slips(own: str) -> int:
    return 1 if len(own) < _SHORT else 2


def _within(one: str, other: str, slips: int) -> bool:
    """Whether `slips` letters put in, left out, changed or exchanged make `one` of `other`."""
    pairs = enumerate(zip(one, other, strict=False))
    same = next((at for at, (a, b) in pairs if a != b), min(len(one), len(other)))
    one, other = one[same:], other[same:]
    if not one or not other or not slips:
        return len(one) + len(other) <= slips if slips else one == other
    changed = ((one[1:], other[1:]), (one[1:], other), (one, other[1:]))
    exchanged = [(one[2:], other[2:])] if one[:2] == other[1::-1] else []
    return any(_within(*pair, slips - 1) for pair in (*changed, *exchanged))
