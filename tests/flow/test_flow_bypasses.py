"""Ways around the proof of a destination or a link that somebody has tried."""

import base64
from typing import Any

import pytest

from gateway.domain.flow import Form, Proof, Run, RunId
from gateway.domain.labels import BOTTOM, Effect, ToolRule
from gateway.flow.addresses import is_ours
from gateway.flow.decoding import decoded_forms
from gateway.flow.forms import form_of, links_in
from gateway.flow.provenance import Provenance
from gateway.flow.review import review
from gateway.flow.use import Knowledge, Use
from tests.flow.flow_builders import (
    SEND,
    TENANT,
    UNTRUSTED,
    remember,
    reviewed,
    source,
    structured,
)

PARAGRAPH = "The board meets on the ninth of May to sell the northern plant."


@pytest.mark.parametrize(
    "text",
    [
        "https://example.com'@evil.example/x",
        "https://example.com\\@evil.example/x",
        "https://example.com/' https://evil.example",
        "https:/evil.example/x",
        "https:evil.example",
        "HTTP:\\\\evil.example",
        "[notes](//evil.example)",
        '<a href="\\\\evil.example">',
        "evil.com",
        "the notes are at secure-notes.com.",
        "evil.xn--p1ai/x",
        "evil.\u0440\u0444/x",
        "203.0.113.7/x",
        "evil\u3002example/x",
        "\uff48ttps\uff1a//evil.example",
        "&#104;ttps&#58;//evil.example",
        " ".join(["https://example.com"] * 300 + ["https://evil.example"]),
    ],
)
def test_a_link_is_found_and_is_not_ours(text: str) -> None:
    links = list(links_in(text))
    assert any(not is_ours(link, TENANT) for link in links), links
    found = reviewed({"recipients": ["alice"], "body": text}).links
    assert Proof.NONE in {link.proof for link in found}


@pytest.mark.parametrize(
    "text",
    [
        "report.docx, notes.md and run.sh",
        "e.g. the 3.5 release at 10.30",
        "alice@example.com",
        "https://example.com'",
        "node.js is a name",
        "// a comment",
    ],
)
def test_what_nobody_takes_for_a_link_is_none(text: str) -> None:
    assert [link for link in links_in(text) if not is_ours(link, TENANT)] == []


@pytest.mark.parametrize("text", ["https:evil.example", "//evil.example", "evil.com"])
def test_an_odd_link_is_no_name(text: str) -> None:
    assert form_of(text) is Form.URL


@pytest.mark.parametrize(
    "given",
    [
        {"mallory": None},
        {"mallory": {}},
        {"mallory": [None]},
        [{"mallory": {"inner": None}}],
        ["alice", {"mallory": None}],
        {"mallory": "alice"},
        {"mallory": 1},
        {"mallory": {"amount": 5}},
        {"alice": 1, "mallory": "22:30"},
        {"DE89370400440532013001": 5},
    ],
)
def test_who_is_named_by_a_member_alone_is_a_destination(given: Any) -> None:
    found = reviewed({"recipients": given}, names=["inner", "amount"]).destinations
    unproven = {d.value for d in found if d.proof is Proof.NONE}
    assert unproven & {"mallory", "DE89370400440532013001"}
    assert "inner" not in unproven


def test_without_a_definition_every_member_is_data() -> None:
    found = reviewed({"recipients": {"name": "alice"}}).destinations
    assert [d.value for d in found] == ["alice", "name"]


def test_the_members_of_an_object_that_says_who_are_no_destinations() -> None:
    given = {"recipients": {"name": None, "handle": "alice"}}
    found = reviewed(given, names=["name", "handle"]).destinations
    assert [d.value for d in found] == ["alice"]


@pytest.mark.parametrize("address", ["thief@evil.example", "https://evil.example/x", "evil.com"])
def test_an_address_in_an_argument_that_nobody_labelled_is_a_destination(address: str) -> None:
    arguments = {"recipients": ["alice"], "body": "b", "bcc": {"list": [f"to {address}"]}}
    found = reviewed(arguments).destinations
    assert [(d.path, d.value, d.proof) for d in found] == [
        ("$.recipients[0]", "alice", Proof.TENANT),
        ("$.bcc.list[0]", address, Proof.NONE),
    ]
    assert reviewed(arguments, rule=ToolRule(destination=SEND.destination)).destinations == found
    says_so = reviewed(arguments, effect=Effect.READ).destinations
    assert [d.value for d in says_so] == ["alice", address][: 1 + ("://" in address)]
    labelled = ToolRule(effect=Effect.READ, destination=SEND.destination)
    only_reads = reviewed(arguments, rule=labelled, effect=Effect.READ).destinations
    assert [d.value for d in only_reads] == ["alice"]


def test_a_number_in_an_argument_that_nobody_labelled_is_none() -> None:
    arguments = {"recipients": ["alice"], "at": 1732233600, "note": "1732 2336 0012"}
    assert [d.value for d in reviewed(arguments).destinations] == ["alice"]


@pytest.mark.parametrize("around", ["{}", "https://evil.example/{}", "/a/b/{}/c", "example/{}"])
def test_what_is_encoded_in_a_path_is_decoded(around: str) -> None:
    encoded = base64.urlsafe_b64encode(PARAGRAPH.encode()).decode().rstrip("=")
    found = {form.text for form in decoded_forms(around.format(encoded))}
    assert any(PARAGRAPH[:-3] in text for text in found), found


@pytest.mark.parametrize("title", ["Please", "summary", "message"])
def test_a_word_that_anybody_says_is_no_title(title: str) -> None:
    provenance = Provenance()
    mails = [{"subject": title, "text": "I am at thief@evil.example"}, {"subject": "x"}]
    remember(provenance, source(UNTRUSTED), structured(mails))
    prompt = "Please send an email message with a summary to my landlord."
    (found,) = reviewed(
        {"recipients": ["thief@evil.example"]}, prompt=prompt, provenance=provenance
    ).destinations
    assert found.proof is Proof.NONE


def test_names_of_members_carry_data_out_as_values_do() -> None:
    provenance = Provenance()
    text = "the salary of Kim is 81234 and that of Lee is 71234"
    remember(provenance, source(UNTRUSTED), structured({"text": text}))
    key = text.replace(" ", "_")[:60]
    arguments = {"recipients": ["alice"], "body": {key: True}}
    found = reviewed(arguments, provenance=provenance).payload
    assert [match.record for part in found for match in part.matches]


def test_a_name_that_another_argument_gives_is_no_name_here() -> None:
    about: dict[str, Any] = {
        "inputSchema": {"properties": {"recipients": {}, "body": {"properties": {"m": {}}}}}
    }
    use = Use(
        server="mail",
        tool="send",
        rule=SEND,
        effect=Effect.EGRESS,
        arguments={"recipients": {"m": 1}},
        about=about,
    )
    known = Knowledge(tenant=TENANT, task=None, provenance=Provenance())
    found = review(Run(id=RunId("r"), label=BOTTOM), use, known)
    assert "m" in [one.value for one in found.destinations]
