"""One kind of thing that a text may contain: found by a pattern, believed after a check."""

from collections.abc import Callable, Iterable, Sequence
from itertools import islice
from typing import Any, Final, TypeAlias

import re2

from gateway.domain._value import value

Found: TypeAlias = Any
"""A match of `re2`, over bytes."""

_MOST_TRIED = 256
"""Places of one text; whoever fills it with more is not told of the rest."""
_MEMORY: Final = 8 * 1024**2
"""Bytes that the automaton of one family takes at most, and takes for a text of random letters."""


@value
class Sign:
    trigger: str
    """Looked for first, together with all others: a text without it is not looked at again."""
    pattern: Any
    """An `re2` expression over bytes, so the time it takes is linear in the text."""
    is_real: Callable[[Found], bool] = bool
    """Whether a match is one; where the pattern says it all, each is."""
    fewest: int = 1
    """How many different ones there must be."""
    of: str = ""
    """The class of data that it shows, where one is told from another."""
    part: int = 0
    """The group of `pattern` that is the value itself; 0: all of it."""

    def stands_in(self, octets: bytes) -> bool:
        """Tell whether `octets` hold enough of it that are real."""
        different: set[bytes] = set()
        for found in islice(self.pattern.finditer(octets), _MOST_TRIED):
            if found[0] not in different and self.is_real(found):
                different.add(found[0])
                if len(different) >= self.fewest:
                    return True
        return False


class Triggers:
    """Expressions in families, numbered through in the order in which they are given.

    A family is one automaton. What counts ("thirteen digits", "twenty letters") stands in a family with what
    counts the same: in one automaton each multiplies the other's states, and random letters or digits then take
    a thousand times what prose takes, for every few bytes make a state that was never met.
    """

    def __init__(self, *families: Iterable[str], memory: int = _MEMORY) -> None:
        """Each of `families` are RE2 expressions, which take up to `memory` bytes.

        Raises:
            ValueError: One is no expression, or a family does not fit into its memory.

        """
        self._sets: list[tuple[int, Any]] = []
        first = 0
        for family in map(tuple, families):
            if family:
                self._sets.append((first, _compiled(family, memory)))
            first += len(family)

    def hits(self, octets: bytes) -> list[int]:
        """Return the numbers of the expressions that match somewhere in `octets`, in order."""
        found: list[int] = []
        for first, one in self._sets:
            if matched := one.Match(octets):
                found += sorted(first + at for at in matched)
        return found

    def any_in(self, octets: bytes) -> bool:
        """Say whether one of the expressions matches somewhere in `octets`."""
        return any(one.Match(octets) for _, one in self._sets)


def _compiled(patterns: Sequence[str], memory: int) -> Any:
    options = re2.Options()
    options.max_mem = memory
    found = re2.Set.SearchSet(options)
    try:
        for pattern in patterns:
            found.Add(pattern)
        found.Compile()
    except re2.error:
        told = patterns[0] if len(patterns) == 1 else f"{len(patterns)} expressions"
        raise ValueError(f"{told}: too much to be looked for in {memory} bytes") from None
    return found
