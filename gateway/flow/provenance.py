"""What a run's results contained, so that a later call can be told where its values are from.

Remembering costs next to nothing; a result is read when a later call first asks.
"""

import re
from collections import deque
from collections.abc import Mapping
from itertools import islice
from typing import Any

from gateway.domain._value import value
from gateway.domain.flow import Match, Proof, Source
from gateway.domain.labels import Integrity
from gateway.flow.fragments import LONGEST_SCANNED, SHORTEST_FRAGMENT, Fragments
from gateway.flow.results import documents, identifiers, texts_of

SHORTEST_VALUE = 4
"""Characters. Shorter ones are equal by chance; only a field declared to hold ids proves them."""

_LINK = re.compile(r"(?:https?://|www\.)[^\s<>\"'\\]{2,2048}", re.IGNORECASE)
_AFTER_LINK = ".,;:!?)]}*"
_MOST_LINKS = 16


@value
class _Result:
    """A result as it came: what it says is not looked at yet."""

    source: Source
    typed: tuple[str, ...]
    arguments: Mapping[str, Any]
    content: Mapping[str, Any]
    octets: int


@value
class _Read:
    """A result that was looked at."""

    serial: int
    source: Source
    leaves: frozenset[str]
    typed: frozenset[str]
    asked: frozenset[str]
    """What the call itself had carried, which proves nothing when it comes back."""
    text: str
    octets: int


class Provenance:
    """The latest results of one run, at most `results` of them and `octets` bytes together.

    The oldest are forgotten first, and one that is too large alone is not kept. A proof that is
    forgotten is no proof. A payload that is forgotten is no longer recognised, but the run's label
    still tells that it may be there.
    """

    def __init__(self, *, results: int = 64, octets: int = 128 * 1024) -> None:
        self._most_results = results
        self._most_octets = octets
        self._octets = 0
        self._waiting: deque[_Result] = deque()
        self._read: deque[_Read] = deque()
        self._serial = 0
        self._fragments = Fragments()
        self._in_fragments = 0
        """The last serial whose text is searchable for pieces."""

    def remember(
        self,
        source: Source,
        *,
        typed: tuple[str, ...],
        arguments: Mapping[str, Any],
        result: Mapping[str, Any],
        octets: int,
    ) -> None:
        """Keep the `result` of a call, `octets` bytes long, for `proof_of` and `matches`.

        `typed` are the rule's patterns; `arguments` are the call's. Both mappings are kept, not
        copied: nobody may change them.
        """
        if octets > self._most_octets:
            return
        self._octets += octets
        self._waiting.append(
            _Result(source=source, typed=typed, arguments=arguments, content=result, octets=octets)
        )
        while self._octets > self._most_octets or (
            len(self._read) + len(self._waiting) > self._most_results
        ):
            self._forget_oldest()

    def _forget_oldest(self) -> None:
        if self._read:
            oldest = self._read.popleft()
            self._fragments.drop(oldest.serial)
            self._octets -= oldest.octets
        else:
            self._octets -= self._waiting.popleft().octets

    def proof_of(self, text: str) -> tuple[Proof, Source] | None:
        """Return how an earlier result proves `text` to be known, and which one.

        Only equality with a whole value counts. Trusted sources go before untrusted ones, then
        fields declared to hold identifiers before others, then the newest.
        """
        untrusted = None
        plain = None
        for read in reversed(self._all()):
            if text in read.asked:
                continue
            trusted = read.source.label.integrity is Integrity.TRUSTED
            if text in read.typed:
                if trusted:
                    return Proof.TYPED, read.source
                untrusted = untrusted or (Proof.TYPED, read.source)
            elif trusted and plain is None and len(text) >= SHORTEST_VALUE and text in read.leaves:
                plain = (Proof.TRUSTED_RESULT, read.source)
        return plain or untrusted

    def matches(self, text: str) -> tuple[Match, ...]:
        """Return what of earlier results is in `text`: the whole of it, pieces of it, links."""
        if len(text) < SHORTEST_VALUE:
            return ()
        results = self._all()
        self._make_searchable()
        pieces = self._fragments.within(text)
        links = self._linked(text)
        found: list[Match] = []
        for read in results:
            if text in read.leaves:
                found.append(_match(read, "exact", len(_octets(text))))
            elif read.serial in pieces:
                found.append(_match(read, "fragment", pieces[read.serial]))
            if read.serial in links:
                found.append(_match(read, "link", links[read.serial]))
        return tuple(found)

    def _linked(self, text: str) -> dict[int, int]:
        """Return which results have links of `text`, by serial, and how many bytes these are."""
        linked: dict[int, int] = {}
        for link in _links(text):
            if len(link) >= SHORTEST_FRAGMENT:
                pieces = self._fragments.within(link)
                whole = [serial for serial, size in pieces.items() if size == len(_octets(link))]
            else:
                whole = [read.serial for read in self._read if link in read.text]
            for serial in whole:
                linked[serial] = linked.get(serial, 0) + len(_octets(link))
        return linked

    def _all(self) -> deque[_Read]:
        while self._waiting:
            self._serial += 1
            self._read.append(_read(self._waiting.popleft(), self._serial))
        return self._read

    def _make_searchable(self) -> None:
        for read in self._read:
            if read.serial > self._in_fragments:
                self._fragments.add(read.serial, read.text)
                self._in_fragments = read.serial


def _read(result: _Result, serial: int) -> _Read:
    contents = list(documents(result.content))
    texts = [text for content in contents for text in texts_of(content)]
    return _Read(
        serial=serial,
        source=result.source,
        leaves=frozenset(texts),
        typed=frozenset(
            text for content in contents for text in identifiers(content, result.typed)
        ),
        asked=frozenset(texts_of(result.arguments)),
        text="\0".join(texts),
        octets=result.octets,
    )


def _match(read: _Read, kind: str, octets: int) -> Match:
    return Match(record=read.source.record, kind=kind, bytes=octets)


def _octets(text: str) -> bytes:
    return text.encode("utf-8", "surrogatepass")


def _links(text: str) -> set[str]:
    found = islice(_LINK.finditer(text[:LONGEST_SCANNED]), _MOST_LINKS)
    return {link[0].rstrip(_AFTER_LINK) for link in found}
