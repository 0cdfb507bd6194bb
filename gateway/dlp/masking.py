"""Documents without what policy wants masked: a mark, a token or nothing stands in its place."""

from bisect import bisect_left, bisect_right
from collections.abc import Callable, Collection, Iterable, Sequence
from itertools import accumulate
from typing import Final

from gateway.dlp.detector import Detector, Span
from gateway.dlp.scanning import over_edges
from gateway.domain.decisions import Duty, Obligation
from gateway.domain.rewriting import Rewriter
from gateway.errors import Denied

OWN: Final = "own"
"""The group of an operator's own classes, of which there may be none."""
DUTIES: Final = frozenset({Duty.MASK, Duty.TOKENIZE, Duty.DROP})


class Masker(Rewriter):
    """Masks the classes that obligations name, each as the strictest of them says."""

    mark = "[masked]"

    def __init__(
        self,
        detector: Detector,
        obligations: Iterable[Obligation],
        token: Callable[[str, str], str | None],
    ) -> None:
        """`token` gives the token for something of a class, or `None` where it has none more."""
        named: dict[Duty, set[str]] = {duty: set() for duty in DUTIES}
        for obligation in obligations:
            if obligation.duty in DUTIES:
                named[obligation.duty] |= set(obligation.detail["classes"])
        self._detector = detector
        self._token = token
        self._dropped = _classes(detector, named[Duty.DROP])
        self._tokens = _classes(detector, named[Duty.TOKENIZE] - named[Duty.MASK]) - self._dropped
        self._tokens -= _classes(detector, named[Duty.MASK])
        self._all = self._dropped | self._tokens | _classes(detector, named[Duty.MASK])

    def text(self, text: str, name: str = "") -> str:
        """Return `text` with something else in place of all that is to be masked."""
        look = self._detector.look(text, name)
        wanted = look.classes & self._all
        if not wanted:
            return text
        if dropped := wanted & self._dropped:
            return f"[withheld: {', '.join(sorted(dropped))}]"
        masked = self._replaced(text, look.spans)
        return self._without_hidden(masked, look.hidden & self._all, name)

    def shows(self, text: str, name: str = "") -> bool:
        """Tell whether something that is to be masked stands in `text`."""
        return bool(self._detector.look(text, name).classes & self._all)

    def joined(self, texts: Sequence[str]) -> Sequence[str]:
        """Return `texts` without what stands over an edge of two of them."""
        look = self._detector.look("".join(texts))
        over = [span for span in over_edges(look, texts) if span.of in self._all]
        return _cut_out(texts, over) if over else texts

    def continued(self, before: str, text: str) -> str:
        """Return `text`, which goes on where `before` ended, without the rest of what began there."""
        if not before:
            return text
        told: Sequence[str] = _cut_out(
            [before, text],
            [
                span
                for span in over_edges(self._detector.look(before + text), [before, text])
                if span.of in self._all
            ],
        )
        return told[1]

    def _replaced(self, text: str, spans: Iterable[Span]) -> str:
        octets = text.encode("utf-8", "surrogatepass")
        parts: list[bytes] = []
        at = 0
        for span in spans:
            if span.of in self._all:
                said = octets[span.start : span.end].decode("utf-8", "replace")
                parts += [octets[at : span.start], self._instead(span.of, said).encode()]
                at = span.end
        return b"".join([*parts, octets[at:]]).decode("utf-8", "surrogatepass")

    def _instead(self, of: str, said: str) -> str:
        token = self._token(of, said) if of in self._tokens else None
        return f"[{of}]" if token is None else token

    def _without_hidden(self, text: str, hidden: Collection[str], name: str) -> str:
        """Return `text` without what encodes something; without all of it, where that is not enough."""
        if not hidden:
            return text
        at, parts = 0, []
        for start, end in self._detector.runs(text, hidden, name):
            parts += [text[at:start], self.mark]
            at = end
        told = "".join([*parts, text[at:]])
        left = self._detector.look(told, name).classes & set(hidden)
        return self.mark if left else told


def _classes(detector: Detector, named: Collection[str]) -> frozenset[str]:
    """Return the classes that `named` names, by themselves or by their group.

    Raises:
        Denied: There is none of a name. What nobody looks for would pass as if it were masked.

    """
    groups = detector.groups
    if unknown := set(named) - {*groups, *groups.values(), OWN}:
        raise Denied(f"policy wants something masked of a class that there is not: {min(unknown)}")
    return frozenset(of for of, group in groups.items() if of in named or group in named)


def _cut_out(texts: Sequence[str], spans: Iterable[Span]) -> list[str]:
    """Return `texts` without the bytes of all of them that are in `spans`; a mark stands at each end."""
    octets = [text.encode("utf-8", "surrogatepass") for text in texts]
    starts = [0, *accumulate(map(len, octets))]
    kept = list(octets)
    # From the last on: what stands before in the same text keeps its place.
    for span in sorted(spans, key=lambda span: span.start, reverse=True):
        first = bisect_right(starts, span.start) - 1
        for index in range(first, bisect_left(starts, span.end)):
            start = starts[index]
            a, b = max(span.start - start, 0), min(span.end - start, len(octets[index]))
            if a < b:
                kept[index] = kept[index][:a] + f"[{span.of}]".encode() + kept[index][b:]
    return [part.decode("utf-8", "surrogatepass") for part in kept]
