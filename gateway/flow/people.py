"""Whom the user names, and under which address a result knows them.

"Mail my sister Anna" gives no address. A record that is about Anna does: a contact that is called so, a
message that she sent. Whoever wrote the record chose the address, so this is `pointed` and no more; and it
holds only where all that is about the name in the user's words knows the same one.
"""

import re
from collections.abc import Iterable, Iterator, Mapping
from itertools import islice
from typing import Any, Final

from gateway.domain._value import value
from gateway.domain.flow import Form
from gateway.flow.forms import addresses_in, form_of
from gateway.flow.results import text_of
from gateway.flow.words import TEXT, singular, words_of

_NAMING: Final = frozenset(
    """
    name title from sender author by owner contact username user handle nickname nick display
    first last company organization organisation seller vendor firm of
    """.split()  # noqa: SIM905 - a table of words
)
"""Last words of members that say whom a record is about."""
_LONGEST = 120
"""Characters of a field that is no text."""
_MOST_RECORDS = 1024
_SHORTEST = 3
_WORD = re.compile(r"[^\W\d_]+")
_LINE = re.compile(
    r"\s*(?P<item>[-*]\s+)?['\"]?(?P<key>[^\W\d][\w -]{0,39}?)['\"]?\s*[:=]\s+(?P<said>\S.*)"
)
_NEXT = re.compile(r"\s*+(?:[-*]|\[\d++\]|\d++[.)])?\s*+")
"""A line that only begins another record."""


@value
class Entry:
    """What a record knows somebody by."""

    names: frozenset[str]
    addresses: frozenset[str]
    told: frozenset[str]
    """Addresses in what they say."""


def entries(document: Any) -> Iterator[Entry]:
    """Yield whom the records in `document` are about, of those that have an address."""
    told = _written(document) if isinstance(document, str) else _objects(document)
    found = map(_entry, islice(told, _MOST_RECORDS))
    yield from (entry for entry in found if entry is not None)


def addresses_of(
    known: Iterable[Entry], words: frozenset[str], form: Form, *, told: bool = False
) -> Iterable[frozenset[str]]:
    """Return for each of `words` that somebody is called all their addresses of `form`.

    With `told` those that they tell of, where they tell of any.
    """
    found: dict[str, set[str]] = {}
    for entry in known:
        for word in entry.names & words:
            addresses = entry.told if told else entry.addresses
            same = (each for each in addresses if form_of(each) is form)
            found.setdefault(word, set()).update(same)
    return map(frozenset, found.values())


def called(text: str) -> frozenset[str]:
    """Return the words of `text` that somebody may be called."""
    words = (word.casefold() for word in _WORD.findall(text))
    return frozenset(word for word in words if len(word) >= _SHORTEST)


def _entry(record: Mapping[str, str]) -> Entry | None:
    short = {name: text for name, text in record.items() if len(text) <= _LONGEST}
    addresses = addresses_in(text for name, text in short.items() if _reaches(name, text))
    told = addresses_in(text for name, text in record.items() if not _is_field(name, text))
    if not (addresses or told):
        return None
    names: set[str] = set()
    for name, text in short.items():
        if singular((words_of(name) or ("",))[-1]) in _NAMING:
            names |= called(_without(addresses, text))
    return Entry(names=frozenset(names), addresses=addresses, told=told) if names else None


def _without(addresses: Iterable[str], text: str) -> str:
    for address in addresses:
        text = text.replace(address, " ")
    return text


def _reaches(name: str, text: str) -> bool:
    """Tell whether the member `name` is about who the record is about: not whom a message goes to."""
    return _is_field(name, text) and not _OTHERS.intersection(words_of(name))


def _is_field(name: str, text: str) -> bool:
    return len(text.split()) <= _FEW and TEXT.isdisjoint(words_of(name)[-1:])


_OTHERS = frozenset({"to", "cc", "bcc", "recipient", "recipients", "participants"})
_FEW = 8


def _objects(document: Any) -> Iterator[Mapping[str, str]]:
    waiting = [document]
    while waiting:
        found = waiting.pop()
        if isinstance(found, dict):
            told = {str(name): text_of(member) for name, member in found.items()}
            yield {name: text for name, text in told.items() if text is not None}
            waiting.extend(found.values())
        elif isinstance(found, list):
            waiting.extend(found)


def _written(text: str) -> Iterator[Mapping[str, str]]:
    """Yield the records that lines tell of: `From: Anna <anna@a.example>`, `- name: Anna`."""
    record: dict[str, str] = {}
    for line in text.splitlines():
        member = _LINE.fullmatch(line)
        begins = member is None and _NEXT.fullmatch(line) is not None
        if begins or (member is not None and (member["item"] or member["key"] in record)):
            yield record
            record = {}
        if member is not None:
            record[member["key"]] = member["said"]
    yield record
