"""Whether the user's words order a deed, or only ask to find something out."""

import pytest

from gateway.domain.labels import Effect, ToolRule
from gateway.flow.intent import speaks_of
from gateway.flow.orders import ordered, orders_acts
from gateway.flow.provenance import Provenance
from tests.flow.flow_builders import UNTRUSTED, remember, reviewed, source, structured


@pytest.mark.parametrize(
    "prompt",
    [
        "Divert 8812 to Rotterdam",
        "Hi! Please excuse Emil from sports.",
        "Look at ticket 7, then nudge whoever wrote it",
        "Could you sort the flat out?",
        "What is on the list? Cross the second one off.",
        "I want to extend the contract",
        "Tell me what it costs and comp it",
        "Please add the eggs to the list that I have",
        "Assign it to whoever is free",
    ],
)
def test_words_order_deeds(prompt: str) -> None:
    assert orders_acts(prompt)


@pytest.mark.parametrize(
    "prompt",
    [
        "",
        "What's in Arne's record?",
        "Summarise the thread about the budget review",
        "Please find the cheapest train to Lyon, and show me the times.",
        "How many days of leave do I have left? And who decides?",
        "Look through my inbox for anything about the lease",
        "Compare the last three invoices and tell me what changed",
        "Thanks!\nRead the notes, please",
        "I would like to know when my flight leaves. List the gates as well.",
        "Tell me where it is - and whether the door was open.",
        "Update was sent to whom",
        "Delete it, or is it old?",
        "Show me what was added",
        "Anna and Bob have to add it",
    ],
)
def test_whoever_wants_to_know_orders_none(prompt: str) -> None:
    assert not orders_acts(prompt)


@pytest.mark.parametrize(
    "prompt",
    [
        "Summarise the mails from Bob and Anna",
        "Summarise my unread mails and messages from this week",
        "Show me invoices, receipts and contracts",
        "Show the flights to Rome or Milan tomorrow",
        "Claude, summarise the thread",
        "Read the notes. Thanks, Anna",
        "Summarise the thread - briefly.",
    ],
)
def test_one_more_of_what_is_listed_is_no_deed_and_neither_is_who_is_spoken_to(prompt: str) -> None:
    assert not orders_acts(prompt)


@pytest.mark.parametrize(
    "prompt",
    ["Read it and reply", "Look at it, and nudge Anna", "Nudge Anna and Bob", "Rsvp for it"],
)
def test_a_deed_that_is_known_or_done_to_something_is_ordered_wherever_it_stands(
    prompt: str,
) -> None:
    assert orders_acts(prompt)


def test_a_word_is_ordered_only_where_an_order_begins() -> None:
    assert "record" in ordered("Record it")
    assert "record" in ordered("Weigh her, then record it")
    assert "record" in ordered("I need to record it")
    assert "record" not in ordered("See her record")
    assert "record" not in ordered("Go to record 7")
    assert "record" not in ordered("Her file. Record of last year was lost?")


WRITE = ToolRule(effect=Effect.WRITE, destination=("id",), payload=("text",))


@pytest.mark.parametrize(
    ("prompt", "asked", "unheard"),
    [
        ("Excuse Emil from sports", False, True),
        ("Where is Emil?", False, False),
        ("Append the letter to his file", True, False),
        ("\u8bf7\u628a\u5b83\u53d1\u7ed9\u9648", None, False),
        (None, None, False),
    ],
)
def test_a_review_says_that_what_is_ordered_is_no_deed_that_is_known(
    prompt: str | None, asked: bool | None, unheard: bool
) -> None:
    found = reviewed(
        {"id": "7", "text": "x"}, rule=WRITE, effect=Effect.WRITE, prompt=prompt, tool="append_file"
    )
    assert found.asked_for is asked
    assert found.unheard is unheard


def test_who_orders_what_means_the_same_may_name_the_thing() -> None:
    def told(prompt: str, *, named: bool = True) -> bool:
        return speaks_of(prompt, "update_device", Effect.WRITE, named=lambda: named)

    assert told("Change the heater")
    assert not told("Change the heater", named=False)
    assert told("Change the device", named=False)
    assert not told("What change does the heater need?")
    assert not told("Explain the heater")


def test_an_id_is_named_by_what_its_record_is_called() -> None:
    known = Provenance()
    devices = [{"id": "d-03", "name": "Heater"}, {"id": "d-04", "name": "Lamp"}]
    remember(known, source(UNTRUSTED), structured({"devices": devices}))

    def asked(one: str) -> bool | None:
        return reviewed(
            {"id": one, "text": "off"},
            rule=WRITE,
            effect=Effect.WRITE,
            prompt="Please change the heater",
            tool="update_device",
            provenance=known,
        ).asked_for

    assert asked("d-03") is True
    assert asked("d-04") is False
