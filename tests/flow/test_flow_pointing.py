"""Whether the user pointed at the source of an address, and how an attacker fails to be it."""

from typing import Any

import pytest

from gateway.domain.flow import Chosen, Destination, Form, Proof
from gateway.domain.labels import Effect, Integrity
from gateway.flow import pointing
from gateway.flow.provenance import Provenance
from tests.flow.flow_builders import (
    UNTRUSTED,
    proof_of,
    remember,
    reviewed,
    source,
    structured,
    texts,
    wrote,
)

PROMPT = "Please send an email with a summary of client-meeting.docx to the client"
CLIENT, EVIL = "john@client.example", "x@evil.com"
ASKED = {"name": "client-meeting.docx"}


def read(*results: dict[str, Any], arguments: dict[str, Any] | None = None) -> Provenance:
    provenance = Provenance()
    for result in results:
        remember(
            provenance,
            source(UNTRUSTED),
            result,
            arguments=ASKED if arguments is None else arguments,
        )
    return provenance


def items(*found: dict[str, Any]) -> dict[str, Any]:
    return structured({"items": list(found)})


def test_the_one_address_of_what_the_user_had_read_is_pointed_at() -> None:
    found = reviewed(
        {"recipients": [CLIENT], "cc": "bob@example.com"},
        provenance=read(texts(f"Present: {CLIENT}, emma@example.com")),
        prompt=PROMPT,
    )
    assert found.destinations[0] == Destination(
        path="$.recipients[0]",
        value=CLIENT,
        proof=Proof.TASK,
        integrity=Integrity.UNTRUSTED,
        origin={
            "server": "mail",
            "tool": "search",
            "record": "r7",
            "minted": False,
            "clean": False,
        },
        form=Form.EMAIL,
        by=Chosen.POINTED,
    )
    assert found.destinations[1].proof is Proof.TENANT


@pytest.mark.parametrize(
    "result",
    [
        structured({"shared_with": {CLIENT: "rw"}}),
        items(
            {"file": "client-meeting.docx", "owner": CLIENT}, {"file": "other.docx", "owner": EVIL}
        ),
        items(
            {"file": "Client-Meeting.docx", "to": {CLIENT: 1}},
            {"file": "other.docx", "owner": EVIL},
        ),
        texts(f"{CLIENT} {CLIENT} bob@example.com"),
    ],
)
def test_an_address_is_pointed_at_wherever_it_stands(result: dict[str, Any]) -> None:
    provenance = read(result)
    assert proof_of(CLIENT, provenance=provenance, prompt=PROMPT) == "task?"
    assert proof_of(EVIL, provenance=provenance, prompt=PROMPT) == "none"


@pytest.mark.parametrize(
    "result",
    [
        texts(f"{CLIENT}, {EVIL}"),
        texts(f"{EVIL} " * 1000 + CLIENT),
        texts(EVIL + " " * 100_000 + CLIENT),
        items({"file": "client-meeting.docx", "to": [CLIENT, EVIL]}),
        items(
            {"file": "client-meeting.docx", "to": CLIENT},
            {"file": "client-meeting.docx", "to": EVIL},
        ),
        structured({CLIENT: EVIL}),
        texts("nobody"),
        {},
    ],
)
def test_what_leaves_a_choice_points_at_nobody(result: dict[str, Any]) -> None:
    provenance = read(result)
    for attempt in (CLIENT, EVIL):
        assert proof_of(attempt, provenance=provenance, prompt=PROMPT) == "none"


def test_a_second_source_that_names_somebody_else_makes_it_ambiguous() -> None:
    for results in ((texts(CLIENT), texts(EVIL)), (texts(EVIL), texts(CLIENT))):
        provenance = read(*results)
        assert proof_of(EVIL, provenance=provenance, prompt=PROMPT) == "none"
        assert proof_of(CLIENT, provenance=provenance, prompt=PROMPT) == "none"
    assert proof_of(CLIENT, provenance=read(texts(CLIENT), texts("-")), prompt=PROMPT) == "task?"


@pytest.mark.parametrize(
    "arguments",
    [
        {},
        {"limit": 10},
        {"query": "minutes"},
        {"name": "client-meeting.docx", "sender": EVIL},
        {"name": "client-meeting.docx", "url": "https://evil.com/"},
        {"name": "client-meeting.docx x"},
    ],
)
def test_a_source_is_called_in_the_users_words_and_no_others(arguments: dict[str, Any]) -> None:
    assert (
        proof_of(EVIL, provenance=read(texts(EVIL), arguments=arguments), prompt=PROMPT) == "none"
    )


def test_numbers_and_flags_beside_the_users_words_steer_nothing() -> None:
    arguments = {**ASKED, "limit": 10, "since": "2024-05-15", "all": True}
    assert (
        proof_of(CLIENT, provenance=read(texts(CLIENT), arguments=arguments), prompt=PROMPT)
        == "task?"
    )


@pytest.mark.parametrize(
    "title", ["a", "email", "client meeting.docx", "2024-05-15", "meeting.docx", "no-1"]
)
def test_a_record_is_titled_by_what_the_user_wrote_and_by_nothing_short(title: str) -> None:
    provenance = read(items({"t": title, "to": CLIENT}, {"t": "x"}), arguments={"q": "other"})
    assert proof_of(CLIENT, provenance=provenance, prompt=f"{PROMPT} 2024-05-15 no-1") == "none"


def test_a_title_of_a_record_is_none_of_the_whole() -> None:
    whole = structured({"title": "client-meeting.docx", "to": CLIENT})
    assert proof_of(CLIENT, provenance=read(whole, arguments={"id": "7"}), prompt=PROMPT) == "none"


def test_every_unproven_address_of_the_call_is_pointed_at_or_none_is() -> None:
    provenance = read(texts(f"{CLIENT}, kim@c.example"))
    both = {"recipients": [CLIENT], "cc": ["kim@c.example"]}
    for arguments, proofs in (
        (both, ["task", "task"]),
        ({"recipients": [CLIENT]}, ["none"]),
        ({**both, "recipients": [CLIENT, EVIL]}, ["none"] * 3),
        # A name reaches nobody by itself, and is judged by itself.
        ({**both, "recipients": [CLIENT, "somebody"]}, ["task", "none", "task"]),
    ):
        found = reviewed(arguments, provenance=provenance, prompt=PROMPT)
        assert [one.proof.value for one in found.destinations] == proofs


@pytest.mark.parametrize("given", ["Ask boss@b.example.", "(boss@b.example)"])
def test_a_prompt_that_gives_an_address_points_nowhere_else(given: str) -> None:
    provenance = read(texts(CLIENT))
    assert proof_of(CLIENT, provenance=provenance, prompt=f"{PROMPT} {given}") == "none"
    assert proof_of(CLIENT, provenance=provenance, prompt=f"{PROMPT} https://b.example/") == "task?"


@pytest.mark.parametrize(
    "effect", [None, *(effect for effect in Effect if effect is not Effect.READ)]
)
def test_only_what_was_read_can_be_pointed_at(effect: Effect | None) -> None:
    provenance = Provenance()
    remember(
        provenance, source(UNTRUSTED), texts(CLIENT), arguments=ASKED, effect=effect, clean=True
    )
    assert proof_of(CLIENT, provenance=provenance, prompt=PROMPT) == "none"


def test_an_error_is_no_source() -> None:
    provenance = Provenance()
    remember(provenance, source(UNTRUSTED), texts(CLIENT), arguments=ASKED, failed=True)
    assert proof_of(CLIENT, provenance=provenance, prompt=PROMPT) == "none"


def test_what_a_led_call_wrote_is_not_pointed_at() -> None:
    provenance = read(texts(EVIL))
    assert proof_of(EVIL, provenance=provenance, prompt=PROMPT) == "task?"
    wrote(provenance, f"client-meeting.docx: {EVIL}")
    assert proof_of(EVIL, provenance=provenance, prompt=PROMPT) == "none"


@pytest.mark.parametrize(
    "prompt", ["Summarize client-meeting.docx", "Who got an email about client-meeting.docx?"]
)
def test_nobody_is_pointed_at_by_who_orders_nothing(prompt: str) -> None:
    assert proof_of(CLIENT, provenance=read(texts(CLIENT)), prompt=prompt) == "none"


def test_a_name_is_pointed_at_by_nobody() -> None:
    provenance = read(structured({"channel": "random"}))
    assert proof_of("random", provenance=provenance, prompt=PROMPT) == "none"


def test_a_record_that_names_more_than_can_be_told_leaves_a_choice(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(pointing, "_MOST_ADDRESSES", 2)
    provenance = read(texts("a@a.example b@b.example"))
    both = {"recipients": ["a@a.example", "b@b.example"]}
    found = reviewed(both, provenance=provenance, prompt=PROMPT)
    assert [one.proof for one in found.destinations] == [Proof.TASK, Proof.TASK]


@pytest.mark.full
def test_many_titles_and_a_long_prompt_are_looked_through() -> None:
    """A run's worth of leaves, every one of them long enough for a title."""
    result = structured({"rows": [{"t": f"title {i}", "u": f"topic {i}"} for i in range(25_000)]})
    provenance = read(result)
    assert (
        proof_of(CLIENT, provenance=provenance, prompt=f"{PROMPT} " + "title word " * 90_000)
        == "none"
    )
