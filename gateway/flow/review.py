"""What a call would move where. It reports; policy decides."""

import re
from collections.abc import Iterator, Mapping
from dataclasses import field, replace
from itertools import chain, islice
from typing import Any

from gateway.domain._value import value
from gateway.domain.document import leaves, member_path
from gateway.domain.flow import (
    Destination,
    FlowReview,
    Form,
    Payload,
    Proof,
    Run,
    Source,
    Task,
    Violation,
)
from gateway.domain.labels import (
    Confidentiality,
    Effect,
    Integrity,
    Label,
    Tenant,
    ToolRule,
)
from gateway.flow import task as user_task
from gateway.flow.addresses import is_ours
from gateway.flow.beside import NOTHING, Beside, telling
from gateway.flow.forms import addresses_in, form_of, links_in
from gateway.flow.fragments import LONGEST_SCANNED
from gateway.flow.intent import orders, speaks_of
from gateway.flow.pointing import pointed_at
from gateway.flow.provenance import Provenance
from gateway.flow.results import text_of

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


@value
class Use:
    """A use of a tool: what is called with what, and what is known of it."""

    server: str
    tool: str
    rule: ToolRule
    effect: Effect | None
    """`None` for what is no tool, which has neither destinations nor violations."""
    arguments: Mapping[str, Any]
    about: Mapping[str, Any] = field(default_factory=dict)
    """The definition of the tool that a person approved; nothing, where there is none."""
    beside: Beside = NOTHING
    """What goes out besides, which no label speaks of."""

    @property
    def looks(self) -> bool:
        """Whether a review of it asks what was read before."""
        return bool(self.rule.destination or self.rule.payload) or self.beside is not NOTHING


@value
class Knowledge:
    """What a destination can be proven with."""

    tenant: Tenant
    task: Task | None
    """What a trusted host declared, and `None` from any other."""
    provenance: Provenance

    @property
    def prompt(self) -> str | None:
        return None if self.task is None else self.task.prompt


def review(run: Run, use: Use, knowledge: Knowledge) -> FlowReview:
    """Report what `use` would move where.

    What its rule does not name of its arguments is not looked at: without destinations, payload and
    anything beside them this costs next to nothing.
    """
    knowledge.provenance.begin()
    prompt = knowledge.prompt
    destinations = tuple(_destinations(use, knowledge)) if use.rule.destination else ()
    texts, unread = _payload_texts(use) if use.rule.payload else ((), None)
    links = tuple(_links(texts, unread, use, knowledge))
    carrying = (*texts, *_made_up(destinations, knowledge))
    if use.beside is not NOTHING:
        destinations += tuple(_beside(use, knowledge))
        carrying += _compared(use.beside)
    asked_for = None
    if prompt is not None and use.effect is not None:
        asked_for = speaks_of(prompt, use.tool, use.effect)
        destinations = _pointed(destinations, use, knowledge, prompt)
    return FlowReview(
        label=run.label,
        sources=run.sources,
        unnamed=run.unnamed,
        destinations=destinations,
        names_where=bool(use.rule.destination),
        payload=tuple(_payload(carrying, knowledge)),
        links=links,
        asked_for=asked_for,
        violations=_violations(run.label, use.effect, destinations, links, asked_for),
    )


def _destinations(use: Use, knowledge: Knowledge) -> Iterator[Destination]:
    found = chain(
        (
            (path, part)
            for path, leaf in _named_leaves(use.rule.destination, use.arguments)
            for part in _parts(leaf)
        ),
        _names_alone(use),
        _addresses_besides(use),
    )
    for path, part in islice(found, MOST_DESTINATIONS):
        if isinstance(part, str):
            yield _destination(path, part, use.server, knowledge)
        else:
            # A flag that names whom a call affects: nothing can prove it.
            yield _unproven(path, str(part).lower())
    for path, _ in islice(found, 1):
        yield _unproven(path, "")


def _beside(use: Use, knowledge: Knowledge) -> Iterator[Destination]:
    """Yield what goes out beside the arguments and needs the proof of a destination."""
    places, content = use.beside.places, use.beside.content
    for path, text in places[:MOST_DESTINATIONS]:
        yield _destination(path, text, use.server, knowledge)
    yield from telling(
        _destination(path, text, use.server, knowledge) for path, text in content[:MOST_PAYLOADS]
    )
    texts = use.beside.texts
    unread = len(texts) > MOST_PAYLOADS or sum(len(t) for _, t in texts) > LONGEST_SCANNED
    if unread or len(places) > MOST_DESTINATIONS:
        yield _unproven("$", "")


def _compared(beside: Beside) -> tuple[tuple[str, str], ...]:
    """Return what goes out beside the arguments as one is to compare it: together, and each alone.

    A value that is cut into pieces is whole again where they stand together.
    """
    texts = beside.texts[:MOST_PAYLOADS]
    if len(texts) == 1:
        return texts
    return (*texts, ("$", " ".join(text for _, text in texts)))


def _names_alone(use: Use) -> Iterator[tuple[str, str]]:
    """Yield the members' names of objects that say nothing else: `{"mallory": null}` is a list."""
    for name in use.rule.destination:
        given, path = use.arguments.get(name), member_path("$", name)
        items = given if isinstance(given, list) else [given]
        for item in items:
            if isinstance(item, dict) and not any(
                text_of(leaf) is not None for _, leaf in leaves(item)
            ):
                yield from ((member_path(path, member), member) for member in item)


def _addresses_besides(use: Use) -> Iterator[tuple[str, str]]:
    """Yield the addresses in arguments that nobody labelled, where the tool does more than read.

    Whoever said which arguments say where to did not know of these, or the tool has not told.
    """
    if use.effect is Effect.READ:
        return
    labelled = {*use.rule.destination, *use.rule.payload}
    names = tuple(name for name in use.arguments if name not in labelled)
    for path, leaf in _named_leaves(names, use.arguments):
        if isinstance(leaf, str) and form_of(leaf) in (Form.EMAIL, Form.URL):
            found = sorted(a for a in addresses_in((leaf,)) if form_of(a) is not Form.ACCOUNT)
            yield from ((path, address) for address in found or (leaf,))


def _parts(leaf: Any) -> tuple[Any, ...]:
    """Return the addresses that `leaf` lists, or else its text as a whole; a flag as it is."""
    text = text_of(leaf)
    if text is None:
        return (leaf,)
    parts = tuple(part.strip() for part in _SEPARATOR.split(text) if part and not part.isspace())
    if len(parts) > 1 and all(form_of(part) is not Form.NAME for part in parts):
        return parts
    return (text,)


def _named_leaves(
    names: tuple[str, ...], arguments: Mapping[str, Any]
) -> Iterator[tuple[str, Any]]:
    """Yield every leaf of the arguments called `names`. Null is what is not there."""
    for name in names:
        for path, leaf in leaves(arguments.get(name), member_path("$", name)):
            if leaf is not None:
                yield path, leaf


def _destination(path: str, text: str, server: str, knowledge: Knowledge) -> Destination:
    if is_ours(text, knowledge.tenant):
        return _proven(path, text, Proof.TENANT)
    prompt = knowledge.prompt
    if prompt is not None and user_task.names(prompt, text):
        return _proven(path, text, Proof.TASK)
    known = knowledge.provenance.proof_of(text, server)
    if known is None:
        return _unproven(path, text, origin=_origin(knowledge.provenance.seen(text)))
    return Destination(
        path=path,
        value=text,
        proof=known.proof,
        integrity=known.integrity,
        origin=_origin(known.source, minted=known.minted),
        form=form_of(text),
    )


def _origin(source: Source | None, *, minted: bool = False) -> Mapping[str, Any] | None:
    if source is None:
        return None
    return {
        "server": source.server,
        "tool": source.tool,
        "record": source.record,
        "minted": minted,
    }


def _proven(path: str, text: str, proof: Proof) -> Destination:
    return Destination(
        path=path, value=text, proof=proof, integrity=Integrity.TRUSTED, form=form_of(text)
    )


def _unproven(path: str, text: str, *, origin: Mapping[str, Any] | None = None) -> Destination:
    return Destination(
        path=path,
        value=text,
        proof=Proof.NONE,
        integrity=Integrity.UNTRUSTED,
        origin=origin,
        form=form_of(text),
    )


def _pointed(
    destinations: tuple[Destination, ...], use: Use, knowledge: Knowledge, prompt: str
) -> tuple[Destination, ...]:
    """Return `destinations`, of which the unproven ones may be those that the user points at."""
    unproven = frozenset(d.value for d in destinations if not _is_meant(d))
    if not unproven or not orders(prompt, use.tool):
        return destinations
    source = pointed_at(
        unproven, prompt=prompt, tenant=knowledge.tenant, provenance=knowledge.provenance
    )
    if source is None:
        return destinations
    return tuple(
        replace(d, proof=Proof.TASK, origin=_origin(source)) if d.value in unproven else d
        for d in destinations
    )


def _is_meant(destination: Destination) -> bool:
    return destination.proof is not Proof.NONE and destination.integrity is Integrity.TRUSTED


def _payload_texts(use: Use) -> tuple[tuple[tuple[str, str], ...], str | None]:
    """Return the texts that are looked at, and where the first is that is not, if any."""
    texts: list[tuple[str, str]] = []
    left = LONGEST_SCANNED
    for path, leaf in _named_leaves(use.rule.payload, use.arguments):
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


def _payload(texts: tuple[tuple[str, str], ...], knowledge: Knowledge) -> Iterator[Payload]:
    for path, text in texts:
        matches = knowledge.provenance.matches(text, knowledge.prompt or "")
        if matches:
            yield Payload(path=path, matches=matches)


def _links(
    texts: tuple[tuple[str, str], ...], unread: str | None, use: Use, knowledge: Knowledge
) -> Iterator[Destination]:
    found = ((path, link) for path, text in texts for link in links_in(text))
    for path, link in islice(found, MOST_LINKS):
        yield _destination(path, link, use.server, knowledge)
    rest = islice((path for path, _ in found), 1)
    for path in rest if unread is None else (unread,):
        yield _unproven(path, "")


def _violations(
    label: Label,
    effect: Effect | None,
    destinations: tuple[Destination, ...],
    links: tuple[Destination, ...],
    asked_for: bool | None,
) -> tuple[Violation, ...]:
    if effect is None:
        return ()
    named = bool(destinations)
    found = []
    if any(destination.proof is Proof.NONE for destination in destinations):
        found.append(UNPROVEN_DESTINATION)
    if any(not _is_meant(link) for link in links):
        found.append(UNPROVEN_LINK)
    if label.integrity is Integrity.UNTRUSTED and effect is not Effect.READ:
        trusted = named and all(d.integrity is Integrity.TRUSTED for d in destinations)
        if not trusted:
            found.append(UNTRUSTED_TO_SINK)
    carries_out = effect in _CARRIES_OUT or (effect is Effect.READ and named)
    if label.confidentiality >= Confidentiality.PRIVATE and carries_out:
        ours = named and all(d.proof is Proof.TENANT for d in destinations)
        if not ours:
            found.append(PRIVATE_TO_OUTSIDE)
    if asked_for is False and effect is not Effect.READ:
        found.append(NOT_IN_TASK)
    return tuple(found)
