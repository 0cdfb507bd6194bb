"""Whether the user pointed at the source that names whom a call goes to.

"Send the summary of client-meeting.docx to the client" names no address, but says where one is.
Whoever wrote that source chose the address, so this is never proof that can be trusted. It holds
where the sources that were pointed at leave no choice: the call goes to exactly those that they
name, and an attacker who adds one makes it ambiguous, which is a no.
"""

from collections.abc import Iterable, Mapping
from itertools import chain

from gateway.domain.flow import Form, Source
from gateway.domain.labels import Tenant
from gateway.flow import task as user_task
from gateway.flow.addresses import is_ours
from gateway.flow.forms import addresses_in, form_of
from gateway.flow.heard import heard
from gateway.flow.intent import tells_of_words
from gateway.flow.naming import things_in
from gateway.flow.people import Entry, addresses_of, called
from gateway.flow.provenance import Provenance
from gateway.flow.reading import Read
from gateway.flow.results import Record
from gateway.flow.task import Words, words_of

_SHORTEST_TITLE = 6
"""Characters. By shorter ones things of every kind are called, and so they are by any one word: a
stranger's mail is titled "Please" in the hope that somebody says so."""

_MOST_ADDRESSES = 256
"""Of one record. One that names more leaves a choice."""


def pointed_at(
    addresses: Mapping[str, Form], *, prompt: str, tenant: Tenant, provenance: Provenance
) -> Source | None:
    """Return the source that `prompt` points at and that names exactly `addresses`, if there is one.

    These are all the addresses of one call that nothing proves, with their forms. A source is a result that was
    asked for in the user's own words and no others, or rather the records in it that bear a title
    which the user gave. Where several are pointed at, all that name anybody name the same. A prompt
    that itself gives an address of the same form points nowhere else, and nothing is pointed at that
    a call of this run has written.
    """
    texts, forms = frozenset(addresses), set(addresses.values())
    if len(forms) != 1:
        return None
    (form,) = forms
    pointed = provenance.noted(_pointed_records, prompt)
    chosen = pointed.once((form, tenant), lambda found: _named_by(found, form, prompt, tenant))
    if texts not in chosen or len(chosen) > 1:
        return None
    if any(provenance.wrote(text) for text in texts):
        return None
    return chosen[texts]


def is_of_somebody_named(text: str, form: Form, prompt: str, provenance: Provenance) -> bool:
    """Tell whether `text` is the one address of `form` that is known of somebody whom `prompt` names.

    Where the user's words go by what somebody said, also the one that they told of.
    """
    known = provenance.noted(_people_called, prompt)
    if {text} not in known.once(form, lambda found: _addresses(found, prompt, form)):
        return False
    return provenance.seen(text) is not None and not provenance.wrote(text)


def _people_called(read: Read, prompt: str) -> tuple[Entry, ...] | None:
    """Return whom `read` is about, if the user's words name one of them."""
    words = _called(prompt)
    return None if read.failed or words.isdisjoint(read.called) else read.people


def _addresses(
    found: Iterable[tuple[Entry, ...]], prompt: str, form: Form
) -> frozenset[frozenset[str]]:
    people, words = tuple(chain.from_iterable(found)), _called(prompt)
    told = addresses_of(people, words, form, told=True) if tells_of_words(prompt) else ()
    return frozenset((*addresses_of(people, words, form), *told))


_called = heard(called)


def _pointed_records(read: Read, prompt: str) -> tuple[Source, tuple[Record, ...]] | None:
    """Return the records of `read` at which the user's words point, if there are any."""
    if not read.reads:
        return None
    words = words_of(prompt)
    found = tuple(r for r in read.records if not r.whole and _is_titled(r, words))
    if not found and _is_called(read.asked, words):
        found = tuple(record for record in read.records if record.whole)
    return (read.source, found) if found else None


def _named_by(
    pointed: Iterable[tuple[Source, tuple[Record, ...]]], form: Form, prompt: str, tenant: Tenant
) -> Mapping[frozenset[str], Source]:
    """Return which addresses of `form` each of the records names, and the newest source of them."""
    if any(form_of(found) is form for found in addresses_in((prompt,))):
        return {}
    named = (
        (_candidates(record, form, prompt, tenant), source)
        for source, records in pointed
        for record in records
    )
    return {found: source for found, source in named if found}


def _is_called(asked: Iterable[str], words: Words) -> bool:
    """Tell whether the user's words alone say what was asked for, numbers aside."""
    told = [text for text in asked if not user_task.is_number(text)]
    return bool(told) and all(words.have(text) for text in told)


def is_called(asked: Iterable[str], prompt: str) -> bool:
    """Tell whether `prompt` itself says what was asked for: whoever asked chose nothing else."""
    told = [text for text in asked if not user_task.is_number(text)]
    things = things_in(prompt)
    return bool(told) and all(things.name(text) or user_task.names(prompt, text) for text in told)


def _is_titled(record: Record, words: Words) -> bool:
    # Most records are told by how their texts begin.
    return not words.words.isdisjoint(record.begins) and any(
        len(text) >= _SHORTEST_TITLE and not text.isalpha() and words.have(text)
        for text in record.texts
    )


def _candidates(record: Record, form: Form, prompt: str, tenant: Tenant) -> frozenset[str]:
    """Return the addresses of `form` in `record` that are new; the empty one is a choice, too."""
    found = frozenset(
        text
        for text in addresses_in((*record.texts, *record.names))
        if form_of(text) is form and not is_ours(text, tenant)
    )
    if len(found) > _MOST_ADDRESSES:
        return found
    return frozenset(text for text in found if not user_task.names(prompt, text, form))
