"""A result as it came, and what it says once somebody asks."""

from collections import Counter
from collections.abc import Mapping
from dataclasses import field
from functools import cached_property
from typing import Any

from gateway.domain._value import value
from gateway.domain.flow import Source
from gateway.domain.labels import Confidentiality, Effect, Integrity
from gateway.flow.carried import Carried
from gateway.flow.forms import addresses_in
from gateway.flow.people import Entry, entries
from gateway.flow.results import (
    Record,
    documents,
    identifiers,
    named_ids,
    records,
    said_in,
    texts_of,
    titled,
)

_MOST_ASKED = 64 * 1024
"""Bytes of letters of one call's arguments; what more was asked with proves nothing."""

_READ = 28
"""How many times its bytes a result takes that was looked at and is searched."""
_TEXT = 500
"""Bytes of a text in it, with all places where it is found again."""
_EACH = 4096


@value
class Answered:
    """A result as it came, with the call that it answers: what it says is not looked at yet."""

    source: Source
    """Its label is the result's own."""
    effect: Effect | None
    arguments: Mapping[str, Any]
    """All that it carried."""
    content: Mapping[str, Any]
    """Kept, not copied, as are the arguments: nobody may change them."""
    octets: int
    said: Mapping[str, Any] = field(default_factory=dict)
    """What of the arguments its caller chose, and said in the run that the result is remembered in."""
    typed: tuple[str, ...] = ()
    """Patterns of the fields that hold identifiers."""
    clean: bool = False
    """Whether nobody outside can have led the call: its run had seen nothing untrusted when it was made."""
    failed: bool = False
    """Whether it tells of an error, which repeats what it was given and vouches for nothing."""
    level: Confidentiality | None = None
    """How confidential its tool's results are, but for what stands in this one; `None`: as its label."""


class Read:
    """A result that was looked at. Some of what it says is made only once somebody asks for it."""

    def __init__(
        self,
        answered: Answered,
        written: int,
        serial: int,
        level: Confidentiality,
        left: Counter[str],
    ) -> None:
        """`left` has the bytes of what nobody asked for yet, by what it is, of this and of others."""
        self.serial = serial
        self.written = written
        """How much had been written when it came, which it may have been read from."""
        self.source = answered.source
        self.vouches = answered.source.label.integrity is Integrity.TRUSTED and not answered.failed
        self.octets = answered.octets
        self.failed = answered.failed
        self.clean = answered.clean
        self.reads = answered.effect is Effect.READ and not answered.failed
        self.asked = tuple(dict.fromkeys(texts_of(answered.arguments)))
        self._said = tuple(dict.fromkeys(said_in(answered.arguments)))
        self._contents = list(documents(answered.content))
        self.texts = tuple(text for content in self._contents for text in texts_of(content))
        self.leaves = frozenset(self.texts)
        self.typed = frozenset(
            text for content in self._contents for text in identifiers(content, answered.typed)
        )
        self._structured = None if answered.failed else answered.content.get("structuredContent")
        # A text may be a document that an outsider wrote, and look like a server's own answer.
        self.ids = frozenset(named_ids(self._structured))
        self.mentioned = addresses_in(self.leaves)
        self.values = self.leaves | self.mentioned | self.ids
        texts = len(self.texts) + len(self.asked) + len(self._said)
        self.weight = _READ * self.octets + _TEXT * texts + _EACH
        """How many bytes it takes, with all that is made of it."""
        self.level = level
        """How confidential it is apart from its secrets."""
        self.trusted = answered.source.label.integrity is Integrity.TRUSTED
        self._left = left
        self._makes = {
            "carried": sum(map(len, self._said)),
            "people": 0 if self.failed else self.octets,
            "titles": 0 if self._structured is None else self.octets,
            "records": self.octets if self.reads else 0,
        }
        left.update(self._makes)

    def _make(self, what: str) -> None:
        self._left[what] -= self._makes.pop(what)

    def drop(self) -> None:
        """Have nothing left to be made: nobody asks for it any more."""
        self._left.subtract(self._makes)

    def finish(self, *, words: bool) -> None:
        """Have made what nobody asked for yet: all of it where a user's `words` are to be looked for."""
        for what in ("carried", *(("people", "titles", "records") if words else ())):
            getattr(self, what)

    @cached_property
    def carried(self) -> Carried:
        self._make("carried")
        return Carried(self._said, most=_MOST_ASKED)

    @cached_property
    def people(self) -> tuple[Entry, ...]:
        self._make("people")
        return tuple(entry for content in self._contents for entry in entries(content))

    @cached_property
    def titles(self) -> Mapping[str, tuple[str, ...]]:
        """By id, what the records are called that bear it in the server's own structured answer."""
        self._make("titles")
        found: dict[str, list[str]] = {}
        for one, title in titled(self._structured):
            found.setdefault(one, []).append(title)
        return {one: tuple(titles) for one, titles in found.items()}

    @cached_property
    def called(self) -> frozenset[str]:
        return frozenset[str]().union(*(entry.names for entry in self.people))

    @cached_property
    def records(self) -> tuple[Record, ...]:
        self._make("records")
        return tuple(record for content in self._contents for record in records(content))
