"""One kind of thing that a text may contain: found by a pattern, believed after a check."""

from collections.abc import Callable
from itertools import islice
from typing import Any, TypeAlias

from gateway.domain._value import value

Found: TypeAlias = Any
"""A match of `re2`, over bytes."""

_MOST_TRIED = 256
"""Places of one text; whoever fills it with more is not told of the rest."""


def always(found: Found) -> bool:  # noqa: ARG001 - where the pattern says it all
    return True


@value
class Sign:
    trigger: str
    """Looked for first, together with all others: a text without it is not looked at again."""
    pattern: Any
    """An `re2` expression over bytes, so the time it takes is linear in the text."""
    is_real: Callable[[Found], bool] = always
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
