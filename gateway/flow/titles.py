"""What the things are called that ids stand for: people say names, and tools take ids."""

from collections.abc import Iterable, Iterator
from itertools import islice
from typing import Final

from gateway.domain.flow import Destination, Proof
from gateway.flow.naming import COMMON, things_in, tokens_of
from gateway.flow.provenance import Provenance
from gateway.flow.words import VERBS, VERBS_OR_NOUNS, singular

_MOST_TITLES: Final = 64
"""Of one id: a record that every result shows has the same one each time."""
_FEWEST_LETTERS: Final = 3


def name_one_of(
    prompt: str, places: Iterable[Destination], provenance: Provenance, server: str
) -> bool:
    """Tell whether `prompt` names one of `places`: as it is, or by what `server` calls a record that bears it.

    The second is no proof, for whoever named the record may have chosen the name; it tells what the
    words speak of.
    """
    return any(_names(prompt, place, provenance, server) for place in places)


def _names(prompt: str, place: Destination, provenance: Provenance, server: str) -> bool:
    if place.proof is Proof.TASK:
        return place.origin is None
    titles = islice(dict.fromkeys(provenance.titles_of(place.value, server)), _MOST_TITLES)
    return any(_speaks_of(prompt, title) for title in titles)


def _speaks_of(prompt: str, title: str) -> bool:
    """Tell whether `prompt` has half of the words of `title` that name something, or more."""
    told = frozenset(map(singular, things_in(prompt).tokens))
    words = frozenset(_naming(tokens_of(title)))
    return bool(words) and 2 * len(words & told) >= len(words)


def _naming(tokens: tuple[str, ...]) -> Iterator[str]:
    """Yield the words of a title that are neither numbers nor deeds, in the singular."""
    for token in tokens:
        if len(token) >= _FEWEST_LETTERS and not token.isdecimal() and token not in _NAMELESS:
            yield singular(token)


_NAMELESS: Final = frozenset({*COMMON, *VERBS, *VERBS_OR_NOUNS})
