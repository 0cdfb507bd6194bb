"""What a call carries: pieces of earlier results, an outsider's words, secrets."""

import re
from collections.abc import Iterable, Iterator

from gateway.domain.flow import Chosen, Destination, Form, Match, Payload, Run, Said
from gateway.domain.labels import Confidentiality, Effect
from gateway.flow.choice import is_own
from gateway.flow.naming import things_in
from gateway.flow.payloads import SHORTEST_VALUE
from gateway.flow.placing import said_of
from gateway.flow.results import said_in
from gateway.flow.use import Knowledge, Use

_REACHES = frozenset({Effect.EGRESS, Effect.PAY, Effect.EXECUTE})
"""Effects by which a server's own data reach somebody else, whatever is named."""
_FILE = re.compile(r"(?:\.{0,2}|~)/(?!/)[^:@\\]*")
"""The path of one on its server: no host, share, person or channel is so called."""
_LISTED = frozenset({Chosen.OWN_ID, Chosen.TYPED, Chosen.TRUSTED_RESULT})


def is_at_home(use: Use, told: Effect | None, named: Iterable[Destination]) -> bool:
    """Tell whether what `use` carries reaches its own server alone, as far as can be read.

    `told` is what a tool that nobody labelled says that it does, and `named` are all the places and
    links of the use: each is one more that hears, but for the tenant's, the server's own names, and
    files that the user's words name.
    """
    if use.effect in _REACHES or (told is not None and told in _REACHES):
        return False
    return all(
        one.by is Chosen.TENANT
        or (one.by in _LISTED and is_own(one, use.server))
        or (one.by is Chosen.TASK and one.form is Form.NAME and _FILE.fullmatch(one.value))
        for one in named
    )


def payload_of(
    texts: tuple[tuple[str, str], ...], knowledge: Knowledge, asked_for: bool | None
) -> Iterator[Payload]:
    for path, text in texts:
        matches = knowledge.provenance.matches(text, knowledge.prompt or "", knowledge.home)
        said = _said_of_payload(text, knowledge, asked_for)
        if matches or said is not Said.NOT:
            yield Payload(path=path, matches=matches, said=said)


def of_others(
    run: Run, use: Use, texts: tuple[tuple[str, str], ...], knowledge: Knowledge
) -> Iterator[Payload]:
    """Yield what may be of private results that are not remembered here: all that a call carries.

    `texts` are of its arguments; of what stands beside them it is what goes out as it is, where that
    is more than a few letters.

    What stands wholly in the user's own prompt is the user's, as where results are remembered.
    """
    private, prompt = Confidentiality.PRIVATE, knowledge.prompt or ""
    if not knowledge.provenance.is_elsewhere_too or run.label.confidentiality < private:
        return
    for path, text in (*texts, *use.beside.told):
        if len(text) >= SHORTEST_VALUE and text not in prompt:
            yield _found(path, ("",), private)


def _said_of_payload(text: str, knowledge: Knowledge, asked_for: bool | None) -> Said:
    """Return whose words name what is carried; who points at a source asks for a deed with it."""
    if len(text) > _LONGEST_SAID:
        return Said.NOT
    said = said_of(text, frozenset(), knowledge)
    if said is Said.NOT or things_in(knowledge.prompt or "").name(text):
        return Said.NOT
    return Said.OUTSIDER if asked_for is False else said


_LONGEST_SAID = 256
"""Characters of a payload that a sentence may ask for; longer ones are compared piece by piece."""


def secrets_of(run: Run, use: Use, knowledge: Knowledge, *, at_home: bool) -> Iterator[Payload]:
    """Yield the secrets of earlier results that stand anywhere in what is said, in any spelling.

    To the server that gave one out it may go back, where that is `at_home`: not by way of it to
    somebody else.
    """
    if run.label.confidentiality is not Confidentiality.SECRET:
        return
    texts = [*said_in(use.arguments), *(text for _, text in use.beside.texts)]
    if not texts:
        return  # what says nothing carries none, whatever is known of them
    if not knowledge.provenance.knows_secrets:
        yield _found("$.*", ("",), Confidentiality.SECRET)
    home = use.server if at_home and use.effect is not None else ""
    if found := knowledge.provenance.secrets_in(texts, home, knowledge.prompt or ""):
        yield _found("$", found, Confidentiality.SECRET)


def _found(path: str, records: tuple[str, ...], level: Confidentiality) -> Payload:
    matches = (Match(record=r, kind="exact", bytes=0, confidentiality=level) for r in records)
    return Payload(path=path, matches=tuple(matches))
