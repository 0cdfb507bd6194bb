"""The index: every approved tool, searched as if only the visible ones existed."""

from collections import OrderedDict
from collections.abc import Callable, Mapping, Sequence
from collections.abc import Set as AbstractSet

import re2

from gateway.domain._value import value
from gateway.errors import BadCommand
from gateway.search.fusion import Scores, fused, ranked
from gateway.search.keyword import Keywords, Norms
from gateway.search.query import Query
from gateway.search.tools import Hit, Ranking, Strategy, ToolText
from gateway.search.words import Stems

_VIEWS = 64
"""Sets of visible tools whose statistics are kept; one is counted anew in milliseconds."""


Closeness = Callable[[str, Mapping[str, float] | None], Scores]
"""Scores the best visible tools for a text, blended with scores by keyword where they are given."""
LONGEST_PATTERN = 256
"""Characters."""
MOST_INSTRUCTIONS = 2_500
"""Of a pattern's program. Where RE2 falls back to following each of them, a character costs as many."""
_MEMORY_BYTES = 1 << 20
_NAME, _DESCRIPTION, _PARAMETERS = 4.0, 2.0, 1.0


@value
class View:
    """The tools that exist for one caller."""

    tools: tuple[str, ...]
    """Ids, in order."""
    norms: Norms


class Index:
    """Approved tools by what they say. One thread at a time; nothing here waits."""

    def __init__(self) -> None:
        self._stems = Stems()
        self._keywords = Keywords(self._stems)
        self._tools: dict[str, ToolText] = {}
        self._views: OrderedDict[frozenset[str], View] = OrderedDict()

    @property
    def tools(self) -> Mapping[str, ToolText]:
        """Everything that is indexed, by id."""
        return self._tools

    def add(self, tool: ToolText) -> None:
        """Make `tool` findable, in place of what was indexed under its id."""
        if self._tools.get(tool.id) == tool:
            return
        self.remove(tool.id)
        self._tools[tool.id] = tool
        self._keywords.add(tool)
        self._views.clear()

    def remove(self, tool: str) -> None:
        """Make the tool with this id impossible to find; nothing happens if it already is."""
        if self._tools.pop(tool, None) is not None:
            self._keywords.remove(tool)
            self._views.clear()

    def view(self, visible: AbstractSet[str]) -> View:
        """Return the tools that exist for a caller who may see `visible`, and nothing of others."""
        wanted = frozenset(visible)
        found = self._views.get(wanted)
        if found is None:
            tools = tuple(sorted(wanted & self._tools.keys()))
            found = self._views[wanted] = View(tools=tools, norms=self._keywords.norms(tools))
            if len(self._views) > _VIEWS:
                self._views.popitem(last=False)
        self._views.move_to_end(wanted)
        return found

    def keyword(self, query: Query, view: View, limit: int) -> Ranking:
        """Rank by words in common, stemmed; tools without one are not found."""
        scores = _fused(query, lambda text: self._keywords.scores(text, view.norms))
        return _ranking(scores, limit, len(scores), Strategy.KEYWORD)

    def embedding(self, query: Query, view: View, closeness: Closeness, limit: int) -> Ranking:
        """Rank by closeness in meaning alone; every visible tool is found."""
        scores = _fused(query, lambda text: closeness(text, None))
        return _ranking(scores, limit, len(view.tools), Strategy.EMBEDDING)

    def hybrid(self, query: Query, view: View, closeness: Closeness, limit: int) -> Ranking:
        """Rank by closeness and words together; every visible tool is found."""

        def blended(text: str) -> Scores:
            return closeness(text, self._keywords.scores(text, view.norms))

        return _ranking(_fused(query, blended), limit, len(view.tools), Strategy.HYBRID)

    def texts(self, view: View) -> tuple[ToolText, ...]:
        """Return what the tools of `view` say, for `matches`."""
        return tuple(self._tools[tool] for tool in view.tools)

    def regex(self, found: Mapping[ToolText, float], limit: int) -> Ranking:
        """Rank what `matches` found, as far as it is still indexed."""
        scores = {
            tool.id: score for tool, score in found.items() if tool == self._tools.get(tool.id)
        }
        return _ranking(scores, limit, len(scores), Strategy.REGEX)

    def close(self) -> None:
        """Let go of what is held."""
        self._stems.close()


def _fused(query: Query, scores: Callable[[str], Scores]) -> Scores:
    return fused(
        scores(query.text),
        [scores(part) for part in query.parts],
        [scores(step) for step in query.steps],
    )


def _ranking(scores: Scores, limit: int, found: int, strategy: Strategy) -> Ranking:
    hits = tuple(Hit(id=tool, score=scores[tool]) for tool in ranked(scores, limit))
    return Ranking(hits=hits, found=found, answered_by=strategy)


def matches(pattern: "Pattern", tools: Sequence[ToolText]) -> Mapping[ToolText, float]:
    """Return those of `tools` in which `pattern` is found, with their scores.

    Slow, and of no index: it is called in a thread.
    """
    return {tool: score for tool in tools if (score := pattern.score(tool))}


class Pattern:
    """A pattern in RE2's syntax, upper and lower case alike."""

    def __init__(self, pattern: str) -> None:
        """Compile it.

        Raises:
            BadCommand: It is too long or too large, or RE2 does not take it.

        """
        if len(pattern) > LONGEST_PATTERN:
            raise BadCommand(f"a pattern has at most {LONGEST_PATTERN} characters")
        options = re2.Options()
        options.case_sensitive = False
        options.log_errors = False
        options.max_mem = _MEMORY_BYTES
        try:
            self._compiled = re2.compile(pattern, options)
        except re2.error as error:
            raise BadCommand("not a regular expression in RE2's syntax") from error
        if self._compiled.programsize > MOST_INSTRUCTIONS:
            raise BadCommand("the pattern is too large; repeat less often, or use * and +")

    def score(self, tool: ToolText) -> float:
        """Return how much of `tool` it is found in: names first; 0 if nowhere."""
        parameters = " ".join(f"{name} {documented}" for name, documented in tool.parameters)
        fields = (
            (_NAME, f"{tool.server} {tool.name} {tool.title}"),
            (_DESCRIPTION, tool.description),
            (_PARAMETERS, parameters),
        )
        return sum(weight for weight, text in fields if self._compiled.search(text))
