"""What a list shows raises no label, and is no word of the user's afterwards."""

import base64
import random
from typing import Any

import pytest

from gateway.domain.flow import Proof
from gateway.flow import carried, listed
from gateway.flow.listed import Listed
from gateway.flow.provenance import Provenance
from tests.flow.flow_builders import TRUSTED, proof_of, remember, source

VALUE = "mallory@evil.example"
ACCOUNT = "DE02120300000000202051"
BEGINS = b"\x89PNG\r\n\x1a\n\0\0\0\rIHDR"
PNG = "data:image/png;base64,"
PIXELS = [BEGINS + random.Random(n).randbytes(6144) for n in range(100)]


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


def test_what_lists_showed_takes_no_proof_from_what_they_did_not_show(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(carried.Search.__init__, "__defaults__", (8 * 1024 * 1024,))
    provenance = Provenance()
    provenance.lists(
        [item(f"the minutes of meeting {n}", f"file:///minutes/{n}") for n in range(1100)]
    )
    people = [f"ann.smith{n}@corp{n}.example" for n in range(15)]
    for record, one in enumerate(people):
        says(provenance, one, record)
    told = {"structuredContent": {"to": "kim@c.example"}}
    remember(provenance, source(TRUSTED, 90), told, arguments={"q": "who is it"})
    provenance.begin()
    known = [provenance.proof_of(one, "mail") for one in people]
    assert known[0] is not None
    assert known[0].proof is Proof.TASK
    assert known[-1] is None  # not all can be looked for at once
    found = provenance.proof_of("kim@c.example", "mail")
    assert found is not None
    assert found.proof is Proof.TRUSTED_RESULT


def test_of_many_values_none_is_taken_for_one_of_a_list() -> None:
    provenance = Provenance()
    provenance.lists([item(f"of meeting {n}", f"file:///minutes/{n}") for n in range(1100)])
    people = [f"ann.smith{n}@corp{n}.example" for n in range(15)]
    for record, one in enumerate(people):
        says(provenance, one, record)
    provenance.begin()
    known = [provenance.proof_of(one, "mail") for one in people]
    assert [one.proof for one in known if one is not None] == [Proof.TASK] * 15


def test_what_is_known_of_a_value_is_not_looked_for_again(monkeypatch: pytest.MonkeyPatch) -> None:
    shown = Listed()
    shown.add([item(VALUE)])
    assert shown.had(VALUE, 1)
    monkeypatch.setattr(shown, "_shown", None)
    assert shown.had(VALUE, 1)


def test_pictures_sizes_and_times_take_no_room() -> None:
    provenance = Provenance()
    for n in range(100):
        told = item("minutes") | {
            "size": n,
            "icons": [{"src": PNG + base64.b64encode(PIXELS[n]).decode()}],
            "annotations": {"lastModified": f"2026-11-29T16:00:{n % 60:02d}.25Z", "priority": 1},
        }
        provenance.lists([told])
    assert provenance._listed._noted < 64 * 1024  # what reads as a word by chance
    assert len(provenance._listed._known) <= 100
    before = provenance._listed.count
    says_something: list[dict[str, Any]] = [
        {"annotations": {}},
        {"size": VALUE},
        {"size": 4_155_552_671_000},
        {"icons": [{"src": f"https://{VALUE}"}]},
        {"icons": [{"src": f"data:image/svg+xml,<text>{VALUE}</text>"}]},
        {"annotations": {"lastModified": VALUE}},
        {"annotations": {"lastModified": "2026-11-29T4155552671:00Z"}},
        {"annotations": {"lastModified": "2041-55-52T16:00Z"}},
        {"annotations": {"lastModified": "2026-11-29T16:00:00.415555Z"}},
        {"annotations": {"lastModified": "2026-11-29T16:00+41:55"}},
    ]
    provenance.lists([item("") | told for told in says_something])
    assert provenance._listed.count == before + len(says_something)


@pytest.mark.parametrize(
    ("icon", "value"),
    [
        ({"src": PNG + base64.b64encode(BEGINS).decode(), "label": f"to {VALUE}"}, VALUE),
        ({"src": PNG + base64.b64encode(BEGINS).decode(), "mimeType": VALUE}, VALUE),
        ({"src": f"data:image/png;,{VALUE}"}, VALUE),
        ({"src": f"data:image/png,{VALUE}"}, VALUE),
        ({"src": f"data:image/png;name={VALUE};base64,iVBORw0KGgo="}, VALUE),
        ({"src": f"{PNG}{VALUE}"}, VALUE),
        ({"src": f"{PNG}iVBORw0KGgo={VALUE}"}, VALUE),
        ({"src": PNG + base64.b64encode(VALUE.encode()).decode()}, VALUE),
        ({"src": PNG + base64.b64encode(b"GIF89a").decode() + "mallorytrading"}, "mallorytrading"),
        ({"src": PNG + base64.b64encode(PIXELS[0] + VALUE.encode()).decode()}, VALUE),
        ({"src": PNG + base64.b64encode(PIXELS[0]).decode().rstrip("=") + ACCOUNT}, ACCOUNT),
    ],
)
def test_what_an_icon_says_beside_its_pixels_is_no_word_of_the_users(
    icon: dict[str, Any], value: str
) -> None:
    provenance = Provenance()
    provenance.lists([item("minutes") | {"icons": [icon]}])
    says(provenance, value)
    assert provenance.proof_of(value, "mail") is None


def test_what_no_picture_begins_with_is_kept_whole() -> None:
    provenance = Provenance()
    said = base64.b64encode(b"\0" + "kim@c.ex".encode("utf-16")).decode()
    provenance.lists([item("minutes") | {"icons": [{"src": PNG + said}]}])
    assert provenance._listed.had(said, 1)


def test_a_size_may_be_somebodys_number_and_its_item_is_noted_once() -> None:
    provenance = Provenance()
    provenance.lists([item("minutes") | {"size": size} for size in (4_155_552, 77, 4_155_553)])
    assert provenance._listed.count == 3
    says(provenance, "4155552")
    assert provenance.proof_of("4155552", "mail") is None


def test_what_runs_share_is_counted_once() -> None:
    shared = Listed()
    parts = [Provenance(listed=shared) for _ in range(3)]
    parts[0].lists([item("x" * 1000)])
    assert sum(one.octets for one in parts) < 2 * parts[0].octets
    octets = parts[0].octets
    del parts[0]
    assert octets <= sum(one.octets for one in parts) < octets + 100
