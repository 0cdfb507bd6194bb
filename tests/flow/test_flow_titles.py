"""Whether the user's words name what an id stands for."""

from typing import Any

import pytest

from gateway.domain.flow import Destination, Proof
from gateway.domain.labels import Integrity
from gateway.flow.provenance import Provenance
from gateway.flow.titles import name_one_of
from tests.flow.flow_builders import UNTRUSTED, remember, source, structured, texts

ITS = source(UNTRUSTED).server


def named(prompt: str, record: Any, one: str = "d-03", *, server: str = ITS, **known: Any) -> bool:
    provenance = Provenance()
    remember(provenance, source(UNTRUSTED), structured(record), **known)
    place = Destination(path="$.id", value=one, proof=Proof.NONE, integrity=Integrity.UNTRUSTED)
    return name_one_of(prompt, [place], provenance, server)


HEATER = {"devices": [{"id": "d-03", "name": "Bathroom heater", "state": "open"}]}


@pytest.mark.parametrize(
    "prompt", ["turn off the heater in the bathroom", "The HEATERS!", "bathroom heater off"]
)
def test_words_name_an_id_by_what_its_record_is_called(prompt: str) -> None:
    assert named(prompt, HEATER)


@pytest.mark.parametrize("prompt", ["turn off the lamp", "is it open?", "", "heat"])
def test_other_words_do_not(prompt: str) -> None:
    assert not named(prompt, HEATER)


@pytest.mark.parametrize(
    "record",
    [
        {"id": "d-03", "name": "Send the 12"},
        {"id": "d-03", "name": "x" * 81},
        {"id": "d-03", "text": "heater"},
        {"id": "d-04", "name": "heater"},
        {"colour": "d-03", "name": "heater"},
        {"id": "d-03", "of": {"name": "heater"}},
        {"id": "d-03", "name": ["heater"]},
        {"id": "d-03", "name": "heater of hall nine, landing"},
    ],
)
def test_only_a_short_name_of_the_record_itself_counts(record: Any) -> None:
    assert not named("Send the heater 12 " + "x" * 81, record)


PLACED = {"id": "d-03", "name": "Bathroom heater", "room_id": "r-7", "room": "Kitchen"}
OF_SEVERAL = {"order_id": "o-1", "customer_id": "c-2", "customer_name": "Hanna", "title": "Lamp"}


@pytest.mark.parametrize(
    ("record", "one", "prompt"),
    [
        (PLACED, "r-7", "remove the bathroom heater"),
        (PLACED | {"room": 7}, "r-7", "remove the bathroom heater"),
        (OF_SEVERAL, "o-1", "the lamp of Hanna"),
        (OF_SEVERAL, "c-2", "the lamp"),
        ({"orders": [OF_SEVERAL]}, "c-2", "the lamp"),
        ({"orders": {"of": OF_SEVERAL}}, "o-1", "the lamp"),
    ],
)
def test_the_id_of_another_thing_is_not_called_as_the_record_is(
    record: Any, one: str, prompt: str
) -> None:
    assert not named(prompt, record, one)


@pytest.mark.parametrize(
    ("record", "one", "prompt"),
    [
        (PLACED, "d-03", "the heater in the bathroom"),
        (PLACED, "d-03", "what is in the kitchen"),
        (PLACED, "r-7", "the kitchen"),
        (OF_SEVERAL, "c-2", "cancel it for Hanna"),
        ({"orders": [OF_SEVERAL]}, "o-1", "the lamp"),
        ({"order": OF_SEVERAL}, "o-1", "the lamp"),
        ({"orderId": "o-1", "order_number": "17", "title": "Lamp"}, "17", "the lamp"),
        ({"order_id": "o-1", "title": "Lamp"}, "o-1", "the lamp"),
    ],
)
def test_an_id_is_called_as_what_it_stands_for(record: Any, one: str, prompt: str) -> None:
    assert named(prompt, record, one)


def test_what_an_error_or_a_text_says_is_called_nothing() -> None:
    assert not named("the heater", HEATER, failed=True)
    provenance = Provenance()
    remember(provenance, source(UNTRUSTED), texts('{"id": "d-03", "name": "heater"}'))
    place = Destination(path="$.id", value="d-03", proof=Proof.NONE, integrity=Integrity.UNTRUSTED)
    assert not name_one_of("the heater", [place], provenance, ITS)


def test_what_another_server_calls_a_thing_is_no_name_of_it() -> None:
    assert named("turn off the heater", HEATER)
    assert not named("turn off the heater", HEATER, server="another")


def test_what_the_words_say_themselves_is_named_and_what_a_call_said_first_is_not() -> None:
    for origin, told in ((None, True), ({"server": "s"}, False)):
        place = Destination(
            path="$.id",
            value="d-03",
            proof=Proof.TASK,
            integrity=Integrity.TRUSTED,
            origin=origin,
        )
        assert name_one_of("", [place], Provenance(), ITS) is told
