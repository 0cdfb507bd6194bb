"""What a person is told of a call before they say yes."""

from typing import Any

import pytest

from gateway.domain.flow import Destination, FlowReview, Match, Payload, Proof, Source
from gateway.domain.labels import BOTTOM, Confidentiality, Integrity, Label
from gateway.flow.evidence import sentences
from tests.flow.flow_builders import TRUSTED, UNTRUSTED, source

ORIGIN = {"server": "web", "tool": "fetch", "record": "r3", "minted": False, "clean": False}


def told(review: dict[str, Any]) -> tuple[str, ...]:
    return sentences(FlowReview(label=BOTTOM, **review))


def destination(
    proof: Proof, *, trusted: bool = True, origin: Any = None, value: str = "a@b.c"
) -> Destination:
    integrity = Integrity.TRUSTED if trusted else Integrity.UNTRUSTED
    return Destination(path="$.to", value=value, proof=proof, integrity=integrity, origin=origin)


@pytest.mark.parametrize(
    ("found", "why"),
    [
        (destination(Proof.TENANT), "is one of ours."),
        (destination(Proof.TASK), "stands in what the user wrote."),
        (
            destination(Proof.TASK, origin=ORIGIN),
            "was given before this run had read anything that is not trusted.",
        ),
        (
            destination(Proof.TASK, trusted=False, origin=ORIGIN),
            "is what web/fetch names, to which the user pointed; outsiders can write there.",
        ),
        (
            destination(Proof.TYPED, trusted=False, origin=ORIGIN),
            "was in a result of web/fetch, an identifier, and outsiders can write there.",
        ),
        (
            destination(Proof.TYPED, origin=ORIGIN),
            "was in a result of web/fetch, which is trusted.",
        ),
        (
            destination(Proof.TRUSTED_RESULT, origin=ORIGIN),
            "was in a result of web/fetch, which is trusted.",
        ),
        (
            destination(Proof.NONE, trusted=False, origin=ORIGIN),
            "appears in a result of web/fetch, and nothing that is trusted names it.",
        ),
        (
            destination(Proof.NONE, trusted=False),
            "was not seen in this run before, and nothing that is trusted names it.",
        ),
    ],
)
def test_every_proof_has_its_sentence(found: Destination, why: str) -> None:
    assert told({"destinations": (found,)}) == (f'"a@b.c" ($.to) {why}',)
    assert told({"links": (found,)}) == (f'The link "a@b.c" ($.to) {why}',)


def test_a_long_value_is_cut_and_nothing_in_it_is_escaped_here() -> None:
    values = ("a" * 200, "a" * 201, "\x1b[2J\u202e")
    for value, shown in zip(values, ("a" * 200, "a" * 200 + "...", "\x1b[2J\u202e"), strict=True):
        (sentence,) = told({"destinations": (destination(Proof.TENANT, value=value),)})
        assert sentence == f'"{shown}" ($.to) is one of ours.'


def test_what_of_confidential_results_is_carried_is_told() -> None:
    def match(record: int, level: Confidentiality, decoded: str = "") -> Match:
        return Match(
            record=f"r{record}", kind="exact", bytes=9, decoded=decoded, confidentiality=level
        )

    matches = (
        match(7, Confidentiality.PUBLIC),
        match(7, Confidentiality.INTERNAL),
        match(7, Confidentiality.PRIVATE),
        match(8, Confidentiality.SECRET, "base64"),
        Match(record="", kind="exact", bytes=9, confidentiality=Confidentiality.PRIVATE),
    )
    payload = (Payload(path="$.body", matches=matches),)
    assert told({"sources": (source(TRUSTED),), "payload": payload}) == (
        "$.body carries 9 bytes of a private result of mail/search.",
        "$.body carries 9 bytes of a secret result of record r8, hidden as base64.",
        "$.body may carry private data: not all that this run has read is remembered here.",
    )


def test_what_the_run_has_read_is_told_and_what_was_not_asked_for() -> None:
    secret = Label(integrity=Integrity.TRUSTED, confidentiality=Confidentiality.SECRET)
    sources = (source(UNTRUSTED), source(TRUSTED, tool="book"), source(secret, tool="vault"))
    assert told({"sources": sources, "asked_for": False}) == (
        "This run has read what outsiders can write: mail/search.",
        "This run has read secrets: mail/vault.",
        "What the user wrote does not ask for what this tool does.",
    )
    assert told({"asked_for": True}) == told({"asked_for": None}) == told({}) == ()


def test_a_person_is_told_forty_things_at_most() -> None:
    def many(number: int) -> tuple[str, ...]:
        return told({"destinations": (destination(Proof.TENANT),) * number})

    assert (len(many(40)), many(40)[-1]) == (40, '"a@b.c" ($.to) is one of ours.')
    assert (len(many(256)), many(256)[-1]) == (41, "There are 216 more things like these.")


def test_only_so_many_sources_are_named() -> None:
    sources: tuple[Source, ...] = tuple(source(UNTRUSTED, tool=f"t{i}") for i in range(50))
    (sentence,) = told({"sources": sources})
    assert sentence.count("mail/") == 8
