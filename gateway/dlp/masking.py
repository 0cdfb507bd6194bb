"""Documents without what policy wants masked: a mark, a token or nothing stands in its place."""

from collections.abc import Callable, Collection, Iterable, Sequence
from typing import Final

from gateway.dlp.detector import Detector, Span, Work
from gateway.domain.decisions import Duty, Obligation
from gateway.domain.rewriting import Rewriter, cut_over_edges
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
        self._detector, self._work = detector, Work()
        self._token = token
        self._dropped = _classes(detector, named[Duty.DROP])
        self._tokens = _classes(detector, named[Duty.TOKENIZE] - named[Duty.MASK]) - self._dropped
        self._tokens -= _classes(detector, named[Duty.MASK])
        self._all = self._dropped | self._tokens | _classes(detector, named[Duty.MASK])

    def text(self, text: str, name: str = "") -> str:
        """Return `text` with something else in place of all that is to be masked."""
        look = self._detector.look(text, name, self._work)
        wanted = look.classes & self._all
        if not wanted:
            return text
        if dropped := wanted & self._dropped:
            return f"[withheld: {', '.join(sorted(dropped))}]"
        masked = self._replaced(text, look.spans)
        return self._without_hidden(masked, look.hidden & self._all, name)

    def shows(self, text: str, name: str = "") -> bool:
        """Tell whether something that is to be masked stands in `text`."""
        return bool(self._detector.look(text, name, self._work).classes & self._all)

    def joined(self, texts: Sequence[str]) -> Sequence[str]:
        """Return `texts` without what stands over an edge of two of them."""
        look = self._detector.look("".join(texts), work=self._work)
        told = cut_over_edges(
            [text.encode("utf-8", "surrogatepass") for text in texts],
            [(s.start, s.end, f"[{s.of}]".encode()) for s in look.spans if s.of in self._all],
        )
        return [part.decode("utf-8", "surrogatepass") for part in told]

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
        for start, end in self._detector.runs(text, hidden, name, self._work):
            parts += [text[at:start], self.mark]
            at = end
        told = "".join([*parts, text[at:]])
        left = self._detector.look(told, name, self._work).classes & set(hidden)
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
