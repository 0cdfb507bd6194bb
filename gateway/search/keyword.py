"""BM25 over words of tools, with statistics of the visible ones only."""

import math
from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping
from itertools import islice

from gateway.search.tools import ToolText
from gateway.search.words import Stems, telling, words_of

MOST_TERMS = 64
"""Terms of one query that count."""
_ENOUGH = 1_000
"""Tools that are compared at least, if there are as many; more than any ranking goes on with."""
_SATURATION = 1.6
"""BM25's k1: how soon a term that occurs again stops adding."""
_LENGTH = 0.6
"""BM25's b: how much more a long text has to offer."""
_MOST_OFTEN = 5
"""How often a term counts in one field: whoever writes it a hundred times gains nothing."""

_NAME = 3.0
_DOCS = 0.5
_SERVER_DESCRIPTION = 0.2

Norms = Mapping[str, float]
"""Of each visible tool, by id: how much its length weighs, by the average of the visible ones."""


class Keywords:
    """Which tool says which word, how often and where. One thread at a time."""

    def __init__(self, stems: Stems) -> None:
        self._stems = stems
        self._postings: dict[str, dict[str, float]] = {}
        self._terms: dict[str, tuple[str, ...]] = {}
        self._lengths: dict[str, float] = {}
        self._last: tuple[tuple[str, ...], Mapping[str, float], float] | None = None
        """What was counted last: of what a server shows to two families of clients, once is enough."""

    def add(self, tool: ToolText) -> None:
        """Count the words of `tool`; afterwards it can be found. It must not be there yet."""
        text = (tool.server, tool.digest, tool.server_description)
        if self._last is None or self._last[0] != text:
            self._last = (text, *self._counted(tool))
        _, frequencies, length = self._last
        for term, frequency in frequencies.items():
            self._postings.setdefault(term, {})[tool.id] = frequency
        self._terms[tool.id] = tuple(frequencies)
        self._lengths[tool.id] = length

    def _counted(self, tool: ToolText) -> tuple[Mapping[str, float], float]:
        """Return how often each term counts, and how long the text is."""
        fields = list(_fields(tool))
        stems = iter(self._stems.of([word for _, words in fields for word in words]))
        frequencies: defaultdict[str, float] = defaultdict(float)
        length = 0.0
        for weight, words in fields:
            length += weight * len(words)
            for stem, often in Counter(islice(stems, len(words))).items():
                frequencies[stem] += weight * min(often, _MOST_OFTEN)
        return frequencies, length

    def remove(self, tool: str) -> None:
        """Forget the words of a tool that was added."""
        for term in self._terms.pop(tool):
            posting = self._postings[term]
            del posting[tool]
            if not posting:
                del self._postings[term]
        del self._lengths[tool]

    def norms(self, visible: Iterable[str]) -> Norms:
        """Return what `scores` needs to know of the visible tools, all of which were added."""
        lengths = {tool: self._lengths[tool] for tool in visible}
        average = sum(lengths.values()) / len(lengths) if lengths else 1.0
        return {
            tool: _SATURATION * (1 - _LENGTH + _LENGTH * length / (average or 1.0))
            for tool, length in lengths.items()
        }

    def scores(self, text: str, norms: Norms) -> dict[str, float]:
        """Return the score of each visible tool that shares a telling term with `text`.

        How rare a term is, how many tools there are and how long they are on average is counted
        over the visible tools: one that is not visible changes no score. The rarest terms come
        first; once a thousand tools have one, commoner terms only add to those.
        """
        postings = [self._postings.get(term, {}) for term in self._terms_of(text)]
        seen = [(posting.keys() & norms.keys(), posting) for posting in postings]
        scores: defaultdict[str, float] = defaultdict(float)
        for tools, posting in sorted(seen, key=lambda pair: len(pair[0])):
            rarity = math.log(1 + (len(norms) - len(tools) + 0.5) / (len(tools) + 0.5))
            for tool in tools if len(scores) < _ENOUGH else tools & scores.keys():
                often = posting[tool]
                scores[tool] += rarity * often / (often + norms[tool])
        return scores

    def _terms_of(self, text: str) -> list[str]:
        words = dict.fromkeys(telling(words_of(text)))
        return list(dict.fromkeys(self._stems.of(islice(words, MOST_TERMS))))


def _fields(tool: ToolText) -> Iterable[tuple[float, list[str]]]:
    """Return the weight and the words of each field."""
    yield _NAME, _identifier(tool.name)
    yield 1.0, _identifier(tool.server)
    yield 1.0, telling(words_of(tool.title))
    yield 1.0, telling(words_of(tool.description))
    yield _SERVER_DESCRIPTION, telling(words_of(tool.server_description))
    for name, documented in tool.parameters:
        yield 1.0, telling(words_of(name))
        yield _DOCS, telling(words_of(documented))


def _identifier(name: str) -> list[str]:
    """Return the words of a name, and all of them as one: `getUser` is found by `getuser`, too."""
    words = words_of(name)
    return [*words, "".join(words)] if len(words) > 1 else words
