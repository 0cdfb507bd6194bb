"""What a text has of each class: where it stands, and what only a decoded or revealed form of it shows."""

from collections.abc import Collection, Iterator, Mapping, Sequence
from functools import partial
from itertools import islice
from typing import Any, Final, Protocol

import re2

from gateway.dlp.classes import GROUPS, SIGNS
from gateway.dlp.secrets import SECRETS
from gateway.domain._value import value
from gateway.domain.bounded import Bounded
from gateway.flow.decoding import decoded_forms
from gateway.flow.folding import is_suspicious, revealed
from gateway.flow.signs import Found, Sign, Triggers

_MOST_PHONES: Final = 256
"""Telephone numbers of one document that are held against the plans of a dozen countries; more are believed."""
_MOST_FORMS: Final = 4096
"""Texts that are encoded in one; they are looked at together."""
_WHOLE: Final = frozenset({"percent", "html", "escapes"})
"""What is undone in a text as a whole: what stands in it as it is stands there, too."""
_LONGEST_NAME: Final = 64
_MOST_NAMES: Final = 4096
_OCTETS_OF_NAMES: Final = 2 * 1024**2
_ENCODED: Final = (
    r"[A-Za-z0-9+/_-]{20}",
    r"(?:%[0-9A-Fa-f]{2}){3}",
    r"(?:&#x?[0-9A-Fa-f]{2,6};){3}",
    r"(?:\\u[0-9A-Fa-f]{4}){3}",
    r"(?:(?:0x|\\x)?[0-9A-Fa-f]{2}[ :,;-]{1,2}){12}",
)
_FAMILIES: Final = (
    [sign.trigger for sign in SECRETS],
    [sign.trigger for sign in SIGNS[len(SECRETS) :]],
)
_RUN: Final[Any] = re2.compile(
    r"[A-Za-z0-9+/_=-]{16,}|(?:(?:0x|\\x|%)?[0-9A-Fa-f]{2}[\s:,;-]{0,2}){12,}"
)
"""What may be encoded by itself, within other text."""


@value
class Span:
    """Bytes of a text in UTF-8, from `start` up to `end`, that are of class `of`."""

    start: int
    end: int
    of: str


@value
class Look:
    """What stands in one text."""

    spans: tuple[Span, ...] = ()
    """In order, none over another."""
    hidden: frozenset[str] = frozenset()
    """Classes of which something stands there in another form, maybe beside what stands there as it is."""
    classes: frozenset[str] = frozenset()
    """All of which something stands there."""


NOTHING: Final = Look()


class TooMuch(Exception):
    """Looking through a document takes longer than it may where it is done."""


class Work(dict[tuple[Any, bytes], bool]):
    """What looking through one document may take yet, and what its telephone numbers came to."""

    left: float = float("inf")
    """In numbers that are held against the plan of one country: some 25 us each."""

    def is_phone(self, sign: Sign, found: Found) -> bool:
        """Tell whether what was `found` is one by `sign`; each is looked up once.

        Raises:
            TooMuch: There is not so much left.

        """
        key = sign.is_real, found[1]
        if key not in self and len(self) < _MOST_PHONES:
            self.left -= 12
            if self.left < 0:
                raise TooMuch
            self[key] = sign.is_real(found)
        return self.get(key, True)


class Finder(Protocol):
    """Whatever finds one class by other means than an expression."""

    @property
    def of(self) -> str: ...
    @property
    def group(self) -> str: ...
    @property
    def is_slow(self) -> bool:
        """Whether it is never to be asked on the event loop."""
        ...

    def spans(self, text: str) -> Iterator[tuple[int, int]]:
        """Yield where something of the class stands in `text`, in bytes of UTF-8."""
        ...


class Detector:
    """Looks for the shipped classes and for an operator's own."""

    def __init__(
        self, own: Mapping[str, str] | None = None, finders: Sequence[Finder] = ()
    ) -> None:
        """`own` are RE2 patterns by name, `finders` find what no expression does.

        Raises:
            ValueError: One of the patterns is none, or takes too much memory.

        """
        self._signs = (*SIGNS, *(_own_sign(name, text) for name, text in (own or {}).items()))
        self._finders = tuple(finders)
        self.is_slow = any(finder.is_slow for finder in self._finders)
        """Whether it is never to be asked on the event loop."""
        self._triggers = Triggers(*_FAMILIES, *([text] for text in (own or {}).values()), _ENCODED)
        mine = {sign.of: "own" for sign in self._signs[len(SIGNS) :]}
        others = {finder.of: finder.group for finder in self._finders}
        self.groups: Mapping[str, str] = {**GROUPS, **mine, **others}
        """The group of each class."""
        self._order = {of: at for at, of in enumerate(self.groups)}
        self.empty: Bounded[str, bool] = Bounded(most=_MOST_NAMES, octets=_OCTETS_OF_NAMES)
        """Members' names in which nothing was found: the same ones come again and again."""

    def may_have(self, text: str) -> bool:
        """Say quickly whether anything may be found in `text`; a no is certain."""
        if self._finders or is_suspicious(text):
            return True
        return self._triggers.any_in(text.encode("utf-8", "surrogatepass"))

    def look(self, text: str, name: str = "", work: Work | None = None) -> Look:
        """Return what stands in `text`, the value of the member `name`. Linear in its length.

        A name tells what its value is ("password"), and is no part of it. `work` is of the document.

        Raises:
            TooMuch: It takes more than is left of `work`.

        """
        work = Work() if work is None else work
        found, is_encoded = self._plain(text, name, work)
        hidden: frozenset[str] = frozenset()
        if is_encoded or is_suspicious(text):
            hidden = frozenset(self._hidden(text, name, found, work))
        if not found and not hidden:
            return NOTHING
        return Look(spans=found, hidden=hidden, classes=hidden.union(span.of for span in found))

    def look_at_name(self, name: str, work: Work | None = None) -> Look:
        """Return what stands in a member's name; where that is nothing, it is `empty` from now on.

        Raises:
            TooMuch: As `look`.

        """
        look = self.look(name, work=work)
        if not look.classes and len(name) <= _LONGEST_NAME:
            self.empty.put(name, True, len(name))
        return look

    def runs(self, text: str, of: Collection[str], name: str, work: Work) -> Iterator[Any]:
        """Yield where in `text` runs stand (characters) that encode something of one of the classes."""
        for run in _RUN.finditer(text):
            if not set(self._hidden(run[0], name, (), work)).isdisjoint(of):
                yield run.span()

    def _hidden(self, text: str, name: str, found: Sequence[Span], work: Work) -> Iterator[str]:
        """Yield the classes of what `text` has in another form, beside what was `found` in it as it is."""
        known = set(_said(text, found))
        forms = list(islice(decoded_forms(text, most_runs=_MOST_FORMS), _MOST_FORMS))
        anew = [form.text for form in forms if _WHOLE.issuperset(form.how.split("+"))]
        if is_suspicious(text):
            anew.append(revealed(text))
        for form in anew:
            spans, _ = self._plain(form, name, work)
            yield from (of for of, said in _said(form, spans) if (of, said) not in known)
        # A look costs the same for one word as for many of them.
        between = f"\n{name}: " if 0 < len(name) <= _LONGEST_NAME else "\n"
        others = (form.text for form in forms if not _WHOLE.issuperset(form.how.split("+")))
        if inner := between.join(others):
            yield from (span.of for span in self._plain(inner, name, work)[0])

    def _plain(self, text: str, name: str, work: Work) -> tuple[tuple[Span, ...], bool]:
        """Return what stands in `text` as it is, and whether something may be encoded there."""
        before = f"{name}: ".encode("utf-8", "surrogatepass") if name else b""
        octets = before + text.encode("utf-8", "surrogatepass")
        hits = self._triggers.hits(octets)
        work.left -= 1 + (len(octets) // 32 if hits else 0)
        if work.left < 0:
            raise TooMuch
        found: list[Span] = []
        for sign in (self._signs[hit] for hit in hits if hit < len(self._signs)):
            for match in sign.pattern.finditer(octets):
                start, end = match.span(sign.part)
                is_real = partial(work.is_phone, sign) if sign.of == "phone" else sign.is_real
                if end > len(before) and is_real(match):
                    start = max(start - len(before), 0)
                    found.append(Span(start=start, end=end - len(before), of=sign.of))
        for finder in self._finders:
            found += [Span(start=a, end=b, of=finder.of) for a, b in finder.spans(text)]
        if len(found) > 1:
            found = _apart(found, self._order)
        return tuple(found), bool(hits) and hits[-1] >= len(self._signs)


def _said(text: str, spans: Sequence[Span]) -> Iterator[tuple[str, bytes]]:
    """Yield what `spans` of `text` are: class and bytes."""
    octets = text.encode("utf-8", "surrogatepass") if spans else b""
    yield from ((span.of, octets[span.start : span.end]) for span in spans)


def _apart(found: list[Span], order: Mapping[str, int]) -> list[Span]:
    """Return `found` in order; what overlaps is one, of the class that goes first in `order`."""
    kept: list[Span] = []
    for span in sorted(found, key=lambda span: (span.start, -span.end)):
        if kept and span.start < kept[-1].end:
            last = kept[-1]
            of = min(last.of, span.of, key=lambda of: order.get(of, -1))
            kept[-1] = Span(start=last.start, end=max(last.end, span.end), of=of)
        else:
            kept.append(span)
    return kept


def _own_sign(name: str, text: str) -> Sign:
    try:
        return Sign(trigger=text, pattern=re2.compile(text.encode()), of=f"own:{name}")
    except re2.error as error:
        raise ValueError(f"dlp.patterns.{name} is no RE2 expression: {error}") from None
