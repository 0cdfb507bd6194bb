"""What a list shows raises no label, and is no word of the user's afterwards."""

import base64
from typing import Any

import pytest

from gateway.domain.flow import Proof
from gateway.flow import listed
from gateway.flow.listed import Listed
from gateway.flow.provenance import Provenance
from tests.flow.flow_builders import TRUSTED, proof_of, remember, source

VALUE = "mallory@evil.example"


def item(text: str, uri: str = "file:///inbox/1") -> dict[str, Any]:
    return {"uri": uri, "name": "minutes", "description": text}


def says(provenance: Provenance, value: str = VALUE, record: int = 1) -> None:
    """Let a call of a clean run carry `value`."""
    remember(provenance, source(TRUSTED, record), {}, arguments={"q": value}, clean=True)


@pytest.mark.parametrize(
    "shown",
    [
        item(f"Questions go to {VALUE}"),
        item("Questions go to MALLORY at evil dot example"),
        item(base64.b64encode(VALUE.encode()).decode()),
        item("", uri=f"mailto:{VALUE}"),
        {"uri": "file:///a", "name": "a", "_meta": {VALUE: 1}},
    ],
)
def test_what_a_list_had_shown_before_is_no_word_of_the_users(shown: dict[str, Any]) -> None:
    provenance = Provenance()
    provenance.lists([shown])
    says(provenance)
    assert provenance.proof_of(VALUE, "mail") is None


def test_what_a_list_shows_of_it_afterwards_takes_nothing_from_it() -> None:
    provenance = Provenance()
    says(provenance)
    provenance.lists([item(VALUE)])
    known = provenance.proof_of(VALUE, "mail")
    assert known is not None
    assert known.proof is Proof.TASK
    assert proof_of("kim@c.example", provenance=provenance, prompt="Tell kim@c.example") == "task"


def test_what_another_list_showed_proves_nothing_and_takes_nothing() -> None:
    provenance = Provenance()
    provenance.lists([item("Questions go to kim@c.example")])
    says(provenance)
    assert provenance.proof_of(VALUE, "mail") is not None
    assert provenance.proof_of("kim@c.example", "mail") is None


def test_the_users_declared_words_prove_what_a_list_shows_too() -> None:
    provenance = Provenance()
    provenance.lists([item(VALUE)])
    says(provenance)
    assert proof_of(VALUE, provenance=provenance, prompt=f"Write to {VALUE}") == "task"


def test_an_item_that_comes_again_takes_nothing_more() -> None:
    shown = Listed()
    shown.add([item("a"), item("b")])
    octets = shown.octets
    shown.add([item("b"), item("a")])
    assert (shown.count, shown.octets) == (2, octets)
    shown.add([item("c")])
    assert shown.count == 3


def test_no_list_takes_anything_from_what_results_prove() -> None:
    provenance = Provenance(results=1)
    remember(provenance, source(TRUSTED, 1), {"structuredContent": {"to": VALUE}})
    for number in range(10):
        provenance.lists([item(f"{VALUE} {number}")])
    known = provenance.proof_of(VALUE, "mail")
    assert known is not None
    assert known.proof is Proof.TRUSTED_RESULT


@pytest.mark.parametrize("bound", ["_MOST", "_MOST_OCTETS"])
def test_where_not_all_is_kept_no_call_is_the_users_word_any_more(
    bound: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(listed, bound, 1)
    provenance = Provenance()
    says(provenance, "kim@c.example")
    provenance.lists([item(f"page {number}") for number in range(3)])
    says(provenance)
    assert provenance.proof_of(VALUE, "mail") is None
    assert provenance.proof_of("kim@c.example", "mail") is not None


def test_what_is_looked_at_next_is_counted() -> None:
    provenance = Provenance()
    provenance.lists([item("x" * 1000)])
    assert provenance.unread(words=False) > 1000
    says(provenance)
    provenance.proof_of(VALUE, "mail")
    assert provenance.unread(words=False) < 1000


def test_a_list_may_say_what_is_no_text() -> None:
    provenance = Provenance()
    provenance.lists([item("\ud800", uri="file:///b"), {"size": 2**70}])
    says(provenance)
    assert provenance.proof_of(VALUE, "mail") is not None


def test_what_is_known_elsewhere_of_a_run_may_have_been_listed_there() -> None:
    shown = Listed()
    Provenance(listed=shown).give_up()
    part = Provenance(listed=shown)
    says(part)
    assert part.proof_of(VALUE, "mail") is None
