"""What a call would move where. It reports; policy decides."""

import re
from collections.abc import Iterator, Mapping
from dataclasses import replace
from itertools import chain, islice
from typing import Any

from gateway.domain._value import value
from gateway.domain.document import is_plain_name, item_path, leaves, member_path
from gateway.domain.flow import (
    Destination,
    FlowReview,
    Form,
    Proof,
    Run,
    Said,
    Violation,
)
from gateway.domain.labels import Confidentiality, Effect, Integrity, Label
from gateway.flow.asked import asks_for, told_of
from gateway.flow.beside import NOTHING, Beside, telling
from gateway.flow.carrying import is_at_home, of_others, payload_of, secrets_of
from gateway.flow.choice import answered, asked_by, chosen
from gateway.flow.forms import addresses_in, form_of, is_of_a_place, links_in
from gateway.flow.fragments import LONGEST_SCANNED
from gateway.flow.intent import lasts, leaves_open, orders, speaks_of_pages
from gateway.flow.orders import orders_acts
from gateway.flow.placing import destination_of, form_at, is_for_addresses, origin_of, unproven
from gateway.flow.pointing import is_of_somebody_named, pointed_at
from gateway.flow.results import text_of
from gateway.flow.schemas import names_within
from gateway.flow.steps import found_in
from gateway.flow.task import as_people_write
from gateway.flow.unlabelled import is_quantity, labelled
from gateway.flow.use import Knowledge, Use
from gateway.flow.words import FILES, singular, words_of

MOST_DESTINATIONS = 256
"""Values of one call; beyond them the call as a whole counts as unproven."""

MOST_PAYLOADS = 128
"""Leaves of one call that are compared with earlier results, together of about 64 KiB."""

MOST_LINKS = 64
"""Links of one call; one more is an unproven one."""

_SEPARATOR = re.compile(r"[,;]")

UNPROVEN_DESTINATION = Violation(
    code="unproven_destination",
    message="nothing shows that a destination of this call is a good one",
)
UNPROVEN_LINK = Violation(
    code="unproven_link",
    message="nothing shows that a link in what this call carries is a good one",
)
UNTRUSTED_TO_SINK = Violation(
    code="untrusted_to_sink",
    message="untrusted data was read, and what this call affects does not come from a trusted source",
)
PRIVATE_TO_OUTSIDE = Violation(
    code="private_to_outside",
    message="private data was read, and this call may carry it to a destination that is not ours",
)
NOT_IN_TASK = Violation(
    code="not_in_task",
    message="the user's words do not ask for what this tool does",
)

_CARRIES_OUT = frozenset({Effect.EGRESS, Effect.PAY, Effect.EXECUTE})
"""Effects that carry data out; a read does so as well if something says where it goes."""


def review(run: Run, use: Use, knowledge: Knowledge) -> FlowReview:
    """Report what `use` would move where.

    What its rule does not name of its arguments is not looked at where it says where to: a read
    without destinations, payload and anything beside them costs next to nothing.
    """
    names_where = bool(use.rule.destination)
    plain = use.rule.effect is not None or use.effect is Effect.READ
    told = None if plain else told_of(use)
    use = labelled(use)
    moved = _moved(use, knowledge) if use.looks else _NOTHING_MOVED
    destinations, prompt = moved.destinations, knowledge.prompt
    asked_for = None
    if prompt is not None and use.effect is not None:
        asked_for = asks_for(prompt, use, moved.texts, destinations, knowledge.provenance)
        destinations = _pointed(destinations, use, knowledge, prompt)
        if asked_for is not False and use.effect is not Effect.READ:
            destinations = tuple(_of_people(destinations, knowledge, prompt))
    destinations = tuple(_with_choice(d, use.server) for d in destinations)
    left_open = prompt is not None and leaves_open(prompt)
    if knowledge.answers:
        asked = asked_by(asked_for, left_open)
        destinations = answered(destinations, knowledge.answers, asked=asked)
    links = tuple(_with_choice(d, use.server) for d in moved.links)
    own, beside = moved.carrying[: moved.own], moved.carrying[moved.own :]
    payload = payload_of(own, knowledge, asked_for)
    if beside:
        payload = chain(payload, payload_of(beside, replace(knowledge, home=use.server), asked_for))
    unknown = of_others(run, use, own, knowledge)
    at_home = is_at_home(use, told, (*destinations, *links))
    secrets = secrets_of(run, use, knowledge, at_home=at_home)
    return FlowReview(
        label=run.label,
        sources=run.sources,
        unnamed=run.unnamed,
        destinations=destinations,
        names_where=names_where,
        payload=(*payload, *unknown, *secrets),
        at_home=at_home,
        labelled=use.rule.destination,
        links=links,
        asked_for=asked_for,
        told=told,
        left_open=left_open,
        unheard=asked_for is False and orders_acts(prompt or ""),
        lasting=use.is_deed and lasts(use.tool),
        violations=_violations(run.label, use.effect, destinations, links, asked_for),
    )


def told_by_its_run(run: Run, use: Use) -> bool:
    """Whether a review without a task or an answer says the same of each use of that rule in `run`.

    So it is of a read that somebody labelled, of which nothing is looked at: where a secret was read,
    all is. Of a run that roams not all is known that was.
    """
    labelled_read = use.effect is Effect.READ and use.rule.effect is not None
    is_looked_at = use.looks or run.label.confidentiality is Confidentiality.SECRET
    return labelled_read and not is_looked_at and not run.roamed


@value
class _Moved:
    """Where a use would go by itself, and with what."""

    destinations: tuple[Destination, ...] = ()
    links: tuple[Destination, ...] = ()
    carrying: tuple[tuple[str, str], ...] = ()
    """Paths and texts that are compared with earlier results."""
    own: int = 0
    """How many of these, the first of them, are the arguments' own: others stand beside them."""
    texts: tuple[str, ...] = ()
    """All content that it carries; nothing, where that was not read to its end."""


_NOTHING_MOVED = _Moved()


def _moved(use: Use, knowledge: Knowledge) -> _Moved:
    knowledge.provenance.begin()
    # Where no words are declared, a deed may be what it is: a good address does not answer where it goes.
    says_so = knowledge.prompt is not None and told_of(use) is Effect.READ
    places = use.rule.destination or says_so or use.effect is Effect.READ
    destinations = tuple(_destinations(use, knowledge)) if places else ()
    texts, unread = _payload_texts(use) if use.rule.payload else ((), None)
    carrying = (*texts, *_made_up(destinations, knowledge))
    own = len(carrying)
    if use.beside is not NOTHING:
        destinations += tuple(_beside(use, replace(knowledge, home=use.server)))
        carrying += _compared(use.beside)
    return _Moved(
        destinations=destinations,
        links=tuple(_links(texts, unread, use, knowledge)),
        carrying=carrying,
        own=own,
        texts=() if unread is not None else tuple(text for _, text in texts),
    )


def _with_choice(destination: Destination, server: str) -> Destination:
    by = chosen(destination, server)
    return destination if by is destination.by else replace(destination, by=by)


def _destinations(use: Use, knowledge: Knowledge) -> Iterator[Destination]:
    found = chain(
        (
            (path, part)
            for path, leaf in _named_leaves(use.rule.destination, use.arguments)
            for part in _parts(leaf)
        ),
        _names_of_members(use, use.rule.destination),
        _addresses_besides(use),
    )
    reached, left_out = False, None
    for path, part in islice(found, MOST_DESTINATIONS):
        if isinstance(part, str):
            if not part or part.isspace():
                continue
            if _is_quantity(path, part):
                left_out = left_out or (path, part)
                continue
            yield destination_of(path, part, use, knowledge)
        else:
            # A flag that names whom a call affects: nothing can prove it.
            yield unproven(path, str(part).lower())
        reached = True
    if left_out is not None and not reached:  # what is all that says where to does say where to
        yield destination_of(*left_out, use, knowledge)
    for path, _ in islice(found, 1):
        yield unproven(path, "")


def _is_quantity(path: str, text: str) -> bool:
    """Tell whether `text`, inside of an argument, is a date or an amount, which reaches nothing."""
    member = _MEMBER.fullmatch(path) if path.count(".") > 1 else None
    return member is not None and is_quantity(member[1], text)


_MEMBER = re.compile(r"\$\.[^.\[].*\.([^.\[]+)(?:\[\d+\])*")
"""A member of an object that an argument holds."""


def _beside(use: Use, knowledge: Knowledge) -> Iterator[Destination]:
    """Yield what goes out beside the arguments and needs the proof of a destination."""
    places, content = use.beside.places, use.beside.content
    for path, text in places[:MOST_DESTINATIONS]:
        yield destination_of(path, text, use, knowledge)
    yield from telling(
        destination_of(path, text, use, knowledge) for path, text in content[:MOST_PAYLOADS]
    )
    texts = use.beside.texts
    unread = len(texts) > MOST_PAYLOADS or sum(len(t) for _, t in texts) > LONGEST_SCANNED
    if unread or len(places) > MOST_DESTINATIONS:
        yield unproven("$", "")


def _compared(beside: Beside) -> tuple[tuple[str, str], ...]:
    """Return what goes out beside the arguments as one is to compare it: together, and each alone.

    A value that is cut into pieces is whole again where they stand together.
    """
    texts = beside.texts[:MOST_PAYLOADS]
    if len(texts) == 1:
        return texts
    return (*texts, ("$", " ".join(text for _, text in texts)))


def _names_of_members(use: Use, names: tuple[str, ...]) -> Iterator[tuple[str, str]]:
    """Yield the names of members, in the arguments `names`, that no definition names: they are data.

    `{"mallory": "writer"}` is a list of people with their roles. What is no plain name is a leaf already.
    """
    for name in names:
        declared, argument = None, use.arguments.get(name)
        waiting = [(member_path("$", name), argument)] if isinstance(argument, dict | list) else []
        while waiting:
            path, given = waiting.pop()
            if isinstance(given, list):
                nested = ((i, item) for i, item in enumerate(given) if not isinstance(item, str))
                waiting += [(item_path(path, i), item) for i, item in nested]
            if not isinstance(given, dict):
                continue
            if declared is None:
                declared = names_within(use.about.get("inputSchema"), name)
            for member, held in given.items():
                at = member_path(path, member)
                waiting.append((at, held))
                if is_plain_name(member) and member not in declared:
                    yield at, member


def _addresses_besides(use: Use) -> Iterator[tuple[str, str]]:
    """Yield the addresses in arguments that nobody labelled, unless the tool is labelled as a read.

    Whoever said which arguments say where to did not know of these, or the tool has not told. By a
    mailbox what only reads reaches nobody.
    """
    if use.rule.effect is Effect.READ:
        return
    labelled = {*use.rule.destination, *use.rule.payload}
    names = tuple(name for name in use.arguments if name not in labelled)
    if Effect.READ in (use.effect, told_of(use)):
        yield from _pages_of(names, use)
        return
    for path, leaf in _named_leaves(names, use.arguments):
        if isinstance(leaf, str) and form_of(leaf) in (Form.EMAIL, Form.URL):
            found = sorted(a for a in addresses_in((leaf,)) if form_of(a) is not Form.ACCOUNT)
            yield from ((path, address) for address in found or (leaf,))


def _pages_of(names: tuple[str, ...], use: Use) -> Iterator[tuple[str, str]]:
    """Yield where on a network a read goes by the arguments `names`: paths of files are no such place."""
    known: dict[str, tuple[bool, bool]] = {}  # many stand in one list
    for path, leaf in _named_leaves(names, use.arguments):
        text = text_of(leaf)
        if text is None:
            continue
        at = _ITEM.sub("", path)
        if at not in known:
            is_path = not FILES.isdisjoint(map(singular, words_of(at)[-1:]))
            known[at] = is_for_addresses(at, use), is_path
        is_for_one, is_path = known[at]
        is_place = isinstance(leaf, str) and is_of_a_place(text, is_path=is_path)
        if (is_place or is_for_one) and form_at(path, text, use) is Form.URL:
            yield from ((path, part) for part in _pages_in(text))


_ITEM = re.compile(r"\[[0-9]++\]")
_BEFORE_A_LINK = re.compile(
    r"\s*+(?:[{\[(\"<]|\S.* |(?!https?:|ftp:)[a-z]++:\Z)", re.DOTALL | re.IGNORECASE
)
"""What no address begins with: a link that stands behind it is spoken of."""


def _pages_in(text: str) -> tuple[str, ...]:
    """Return the URLs that `text` speaks of, or else it as it is: what begins with one may be one."""
    links = tuple(links_in(text))
    speaks = bool(links) and _BEFORE_A_LINK.match(text.partition(links[0])[0]) is not None
    return links if speaks else _parts(text)


def _parts(leaf: Any) -> tuple[Any, ...]:
    """Return the addresses that `leaf` lists, or else its text as a whole; a flag as it is."""
    text = text_of(leaf)
    if text is None or not ("," in text or ";" in text):
        return (leaf if text is None else text,)
    parts = tuple(part.strip() for part in _split(text) if part and not part.isspace())
    if len(parts) > 1 and (_lists_places(parts) or all(form_of(p) is not Form.NAME for p in parts)):
        return parts
    return (text,)


def _split(text: str) -> Iterator[str]:
    at = 0
    for mark in found_in(_SEPARATOR, text):
        yield text[at : mark.start()]
        at = mark.end()
    yield text[at:]


def _lists_places(parts: tuple[str, ...]) -> bool:
    """Tell whether more than the first of `parts` reaches somebody: else what follows may belong to it.

    `https://maps.example/@52.5,13.4,15z` is one URL.
    """
    first, *others = parts[:_MOST_LISTED]
    return form_of(first) in _REACHING and any(form_of(part) in _REACHING for part in others)


_REACHING = frozenset({Form.EMAIL, Form.URL})
_MOST_LISTED = 2048
"""Parts; a text that has more is too long to be known for ours, or for the user's, by how it begins."""


def _named_leaves(
    names: tuple[str, ...], arguments: Mapping[str, Any]
) -> Iterator[tuple[str, Any]]:
    """Yield every leaf of the arguments called `names`. Null is what is not there."""
    for name in names:
        argument = arguments.get(name)
        if isinstance(argument, dict | list):
            found = leaves(argument, member_path("$", name))
            yield from ((path, leaf) for path, leaf in found if leaf is not None)
        elif argument is not None:
            yield member_path("$", name), argument


def _pointed(
    destinations: tuple[Destination, ...], use: Use, knowledge: Knowledge, prompt: str
) -> tuple[Destination, ...]:
    """Return `destinations`, of which the unproven ones may be those that the user points at."""
    if use.effect is Effect.READ:
        return _pages(destinations, prompt, knowledge)
    unproven = {d.value: d.form for d in destinations if _is_address(d) and not _is_meant(d)}
    if not unproven or not orders(prompt, use.tool):
        return destinations
    source = pointed_at(
        unproven, prompt=prompt, tenant=knowledge.tenant, provenance=knowledge.provenance
    )
    if source is None:
        return destinations
    return tuple(
        replace(d, proof=Proof.TASK, origin=origin_of(source)) if d.value in unproven else d
        for d in destinations
    )


def _of_people(
    destinations: tuple[Destination, ...], knowledge: Knowledge, prompt: str
) -> Iterator[Destination]:
    """Yield `destinations`; the address of somebody whom the words name is pointed at."""
    for found in destinations:
        unknown = _is_address(found) and not _is_meant(found)
        named = unknown and is_of_somebody_named(
            found.value, found.form, prompt, knowledge.provenance
        )
        yield replace(found, proof=Proof.TASK) if named else found


def _pages(
    destinations: tuple[Destination, ...], prompt: str, knowledge: Knowledge
) -> tuple[Destination, ...]:
    """Return `destinations`; pages that a source names at which the words point are pointed at.

    A URL that stood there, letter for letter, carries nothing of what was read since: one of the same
    words may, by its signs and capitals. Where the words do not speak of pages, nobody asked for one.
    """
    if not speaks_of_pages(prompt):
        return destinations
    return tuple(
        replace(d, proof=Proof.TASK)
        if d.form is Form.URL
        and d.proof is Proof.NONE
        and d.said is Said.POINTED
        and _stood(d.value, knowledge)
        else d
        for d in destinations
    )


def _stood(url: str, knowledge: Knowledge) -> bool:
    """Tell whether `url` stood in a result, as it is or as people write it."""
    return any(map(knowledge.provenance.seen, (url, *as_people_write(url))))


def _is_address(destination: Destination) -> bool:
    return destination.form not in (Form.NAME, Form.TEXT)


def _is_meant(destination: Destination) -> bool:
    return destination.proof is not Proof.NONE and destination.integrity is Integrity.TRUSTED


def _payload_texts(use: Use) -> tuple[tuple[tuple[str, str], ...], str | None]:
    """Return the texts that are looked at, and where the first is that is not, if any."""
    texts: list[tuple[str, str]] = []
    left = LONGEST_SCANNED
    leaves_and_names = chain(
        _named_leaves(use.rule.payload, use.arguments), _names_of_members(use, use.rule.payload)
    )
    for path, leaf in leaves_and_names:
        text = text_of(leaf)
        if text is None:
            continue
        if left <= 0 or len(texts) == MOST_PAYLOADS:
            return tuple(texts), path
        left -= len(text)
        texts.append((path, text))
    return tuple(texts), None


def _made_up(
    destinations: tuple[Destination, ...], knowledge: Knowledge
) -> Iterator[tuple[str, str]]:
    """Yield the URLs that nobody gave: they may carry something, and one that was read does not."""
    for destination in destinations:
        if destination.form is Form.URL and knowledge.provenance.seen(destination.value) is None:
            yield destination.path, destination.value


def _links(
    texts: tuple[tuple[str, str], ...], unread: str | None, use: Use, knowledge: Knowledge
) -> Iterator[Destination]:
    found = ((path, link) for path, text in texts for link in links_in(text))
    for path, link in islice(found, MOST_LINKS):
        yield destination_of(path, link, use, knowledge)
    rest = islice((path for path, _ in found), 1)
    for path in rest if unread is None else (unread,):
        yield unproven(path, "")


_ALL_TRUSTED = {Integrity.TRUSTED}
_ALL_OURS = {Proof.TENANT}


def _violations(
    label: Label,
    effect: Effect | None,
    destinations: tuple[Destination, ...],
    links: tuple[Destination, ...],
    asked_for: bool | None,
) -> tuple[Violation, ...]:
    if effect is None:
        return ()
    proofs = {destination.proof for destination in destinations}
    found = []
    if Proof.NONE in proofs:
        found.append(UNPROVEN_DESTINATION)
    if not all(map(_is_meant, links)):
        found.append(UNPROVEN_LINK)
    may_be_led = label.integrity is Integrity.UNTRUSTED and effect is not Effect.READ
    if may_be_led and {d.integrity for d in destinations} != _ALL_TRUSTED:
        found.append(UNTRUSTED_TO_SINK)
    carries_out = effect in _CARRIES_OUT or (effect is Effect.READ and bool(proofs))
    if label.confidentiality >= Confidentiality.PRIVATE and carries_out and proofs != _ALL_OURS:
        found.append(PRIVATE_TO_OUTSIDE)
    if asked_for is False and effect is not Effect.READ:
        found.append(NOT_IN_TASK)
    return tuple(found)
