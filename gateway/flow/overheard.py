"""What servers say outside of what they answer: descriptions of links, completions, notices, questions.

It may ask for something, and what is private in it may be carried on, as of any result. It proves
nothing: no destination is known by it, and nobody is pointed at.
"""

from collections import deque
from collections.abc import Collection, Iterable, Iterator
from typing import Final

from gateway.domain._value import value
from gateway.domain.flow import Match, Source
from gateway.domain.labels import Confidentiality, Integrity
from gateway.flow.forms import addresses_in
from gateway.flow.index import Index
from gateway.flow.payloads import SHORTEST_VALUE, Payloads
from gateway.flow.spoken import Spoken, Voices

_MOST_WEIGHT: Final = 16 * 1024 * 1024
"""Bytes that all remarks of a run take; the oldest are forgotten beyond them."""
_READ: Final = 28
"""How many times its bytes one takes that is searched; and a text in it, and it itself, beside them."""
_TEXT: Final = 500
_EACH: Final = 2048
_ASKED: Final = 8
"""How many times its bytes one takes that a call carried, which is only compared."""
_MOST_ASKED: Final = 64 * 1024
"""Bytes of what one call carried that are kept with a remark."""
_ENTRY: Final = 128
"""Bytes of each text of it that count besides."""


@value
class Remark:
    """What was said, and of what level it is apart from its secrets."""

    source: Source
    level: Confidentiality
    texts: tuple[str, ...]
    asked: tuple[str, ...]
    """What the call had carried beside whose answer it was said, as `excusing` has it."""
    arrived: int = 0
    """How many results had come by then, the one that it stands in among them."""

    @property
    def octets(self) -> int:
        """How many bytes are gone through to read it."""
        return _octets(self.texts) + _octets(self.asked)

    @property
    def weight(self) -> int:
        read = _READ * _octets(self.texts) + _ASKED * _octets(self.asked)
        return read + _TEXT * (len(self.texts) + len(self.asked)) + _EACH

    @property
    def values(self) -> frozenset[str]:
        """What it shows, and does not only say again."""
        return addresses_in(self.texts).union(self.texts).difference(self.asked)

    @property
    def told(self) -> tuple[object, ...]:
        """What is the same of one that says nothing new."""
        return self.source.server, self.level, self.texts


def telling(texts: Iterable[str]) -> tuple[str, ...]:
    """Return of what was said what can be found again: shorter texts, as numbers are, say nothing."""
    return tuple(text for text in dict.fromkeys(texts) if len(text) >= SHORTEST_VALUE)


def excusing(texts: Iterable[str]) -> tuple[str, ...]:
    """Return as many of the `texts` that a call carried as are kept with each remark about it.

    They only excuse what is said again: what is left out counts as said by the server alone.
    """
    kept: list[str] = []
    left = _MOST_ASKED
    for text in dict.fromkeys(texts):
        octets = _octets((text,)) + _ENTRY
        if octets <= left:
            kept.append(text)
            left -= octets
    return tuple(kept)


def _octets(texts: Iterable[str]) -> int:
    return sum(len(text.encode("utf-8", "surrogatepass")) for text in texts)


class Overheard:
    """The remarks of a run's servers. One that says the same again is none."""

    def __init__(self) -> None:
        self.weight = 0
        """How many bytes they take at most."""
        self.unread = 0
        """How many bytes of them are looked at when something is asked next."""
        self._serial = 0
        self._known: dict[tuple[object, ...], int] = {}
        """How many results had come when each was told first, in whichever order they are noted."""
        self._waiting: deque[Remark] = deque()
        self._read: dict[int, Remark] = {}
        """By serial number, oldest first."""
        self._payloads = Payloads()
        self._voices = Voices()
        self._places: Index[str, int] = Index()

    def add(self, remark: Remark) -> None:
        """Note `remark`, unless it is too large alone: its run's label still tells of it."""
        weight, told = remark.weight, remark.told
        if not remark.texts or weight > _MOST_WEIGHT:
            return
        known = self._known.get(told)
        self._known[told] = remark.arrived if known is None else min(known, remark.arrived)
        if known is not None:
            return
        self._waiting.append(remark)
        self.weight += weight
        self.unread += remark.octets
        while self.weight > _MOST_WEIGHT:
            self._forget_oldest()

    def matches(self, text: str, known: str, home: str) -> tuple[Match, ...]:
        """Return what of them is in `text`, as `Payloads.matches` does; nothing of what `home` said."""
        self.look()
        found = self._payloads.matches(text, known)
        if not (found and home):
            return found
        own = {r.source.record for r in self._read.values() if r.source.server == home}
        return tuple(one for one in found if one.record not in own)

    def naming(self, text: str, nouns: Collection[str], home: str) -> Iterator[tuple[str, ...]]:
        """Yield what was asked for those untrusted ones that name `text`; none of those of `home`."""
        self.look()
        for serial in self._voices.naming(text, nouns):
            remark = self._read[serial]
            if not home or remark.source.server != home:
                yield remark.asked

    def showed(self, text: str, arrived: int) -> bool:
        """Tell whether one of them had shown `text` as a value or an address, when so many results had come."""
        self.look()
        shown = (self._read[serial].told for serial in self._places.having(text))
        return any(self._known[told] <= arrived for told in shown)

    def look(self) -> None:
        """Read what was not read yet."""
        while self._waiting:
            self._look(self._waiting.popleft())

    def _look(self, remark: Remark) -> None:
        self._serial += 1
        self.unread -= remark.octets
        self._read[self._serial] = remark
        source = remark.source
        self._payloads.add(self._serial, source.record, remark.texts, remark.asked, remark.level)
        self._places.add(self._serial, remark.values)
        if source.label.integrity is not Integrity.TRUSTED:
            self._voices.add(self._serial, Spoken(remark.texts))

    def _forget_oldest(self) -> None:
        if not self._read:
            remark = self._waiting.popleft()
            self.unread -= remark.octets
        else:
            serial, remark = next(iter(self._read.items()))
            del self._read[serial]
            self._payloads.drop(serial)
            self._voices.drop(serial)
            self._places.drop(serial, remark.values)
        del self._known[remark.told]
        self.weight -= remark.weight
