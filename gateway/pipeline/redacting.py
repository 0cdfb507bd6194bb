"""Blotting out what a `redact` duty names: in texts, numbers, names and what base64 holds (pure)."""

import html
import json
from collections.abc import Collection, Iterable, Mapping, Sequence
from typing import Any
from urllib.parse import quote, quote_plus

import re2

from gateway.domain.paths import Path, parse_path, selected
from gateway.domain.rewriting import REDACTED, Rewriter, cut_over_edges, spellings
from gateway.errors import Denied
from gateway.flow.folding import revealed
from gateway.flow.spellings import unescaped
from gateway.pins.members import astray
from gateway.pipeline.literals import SHORTEST, Literals, apart


def redacted(
    detail: Mapping[str, Any], content: Mapping[str, Any], before: str = ""
) -> Mapping[str, Any]:
    """Return `content` without what the duty's paths select and its patterns match.

    A path names one place, the duty means the value: it is blotted out wherever else it stands, and
    over the edge of texts that readers put together, such as of that `before` a notification.

    Raises:
        Denied: A path's place stands there under a second name that looks like its own, or what is
            hidden would take too long to be looked for.

    """
    changed = _copied(content)
    hidden: set[str] = set()
    for text in detail.get("paths", ()):
        path = parse_path(text)
        if astray(changed, path) is not None:
            raise Denied("what policy wants hidden stands there under two names")
        hidden |= _blank(changed, path)
    words = {word for word in hidden if len(word) >= SHORTEST}
    blot = _Blot(
        {one for word in words for one in _written(word)},
        [re2.compile(text) for text in detail.get("patterns", ())],
    )
    cleaned: dict[str, Any] = blot.of(blot.gone_on(before, changed))
    return cleaned


def _written(word: str) -> tuple[str, ...]:
    """Return how others write `word` within a JSON text, a page and a URI."""
    return (
        word,
        json.dumps(word)[1:-1],
        json.dumps(word, ensure_ascii=False)[1:-1],
        html.escape(word),
        quote(word),
        quote(word, safe=""),
        quote_plus(word),
    )


class _Blot(Rewriter):
    """What is to be blotted out, applied to a whole document."""

    def __init__(self, literals: Collection[str], patterns: list[Any]) -> None:
        self._literals = Literals(literals)
        self._shown = Literals({*literals, *map(revealed, literals)})
        self._patterns = patterns

    def text(self, text: str, name: str = "") -> str:  # noqa: ARG002 - whatever it is the value of
        text = self._literals.blotted(text, REDACTED)
        for pattern in self._patterns:
            text = pattern.sub(REDACTED, text)
        return REDACTED if self._disguises(text) else text

    def joined(self, texts: Sequence[str]) -> Sequence[str]:
        """Return `texts` without what stands over an edge of two of them; marks alone, if it is disguised."""
        whole = "".join(texts)
        found = [m.span() for pattern in self._patterns for m in pattern.finditer(whole)]
        spans = apart(sorted([*self._literals.spans(whole), *found]))
        told = cut_over_edges(texts, [(*span, REDACTED) for span in spans])
        if not self._disguises("".join(told)):
            return told
        told = [self.text(text) for text in told]
        # Still there, it stands over an edge, and nobody knows over which.
        return [REDACTED] * len(texts) if self._disguises("".join(told)) else told

    def _disguises(self, text: str) -> bool:
        # Full-width digits, or such with nothing visible between them, are read as what they show;
        # and what is escaped is read by whoever reads what it is escaped for.
        plain = unescaped(text)
        shown = (revealed(text), plain, revealed(plain))
        return any(one != text and self.shows(one) for one in shown)

    def shows(self, text: str, name: str = "") -> bool:  # noqa: ARG002
        return self._shown.stand_in(text) or any(pattern.search(text) for pattern in self._patterns)


def _copied(node: Any) -> Any:
    if isinstance(node, Mapping):
        return {name: _copied(inner) for name, inner in node.items()}
    return [_copied(inner) for inner in node] if isinstance(node, list | tuple) else node


def _blank(document: Any, path: Path) -> set[str]:
    """Replace what `path` selects, and return the texts and numbers that stood there."""
    hidden: set[str] = set()
    for parent, key in selected(document, path):
        hidden |= set(_leaves(parent[key]))
        parent[key] = REDACTED
    return hidden


def _leaves(node: Any) -> Iterable[str]:
    if isinstance(node, dict):
        for inner in node.values():
            yield from _leaves(inner)
    elif isinstance(node, list):
        for inner in node:
            yield from _leaves(inner)
    elif isinstance(node, str):
        yield node
    elif isinstance(node, int | float) and not isinstance(node, bool):
        yield from spellings(node)
