"""What is left of a description where lists are brief."""

import pytest

from gateway.builtin.briefs import (
    LONGEST_BRIEF,
    brief_definition,
    brief_text,
    is_another,
    required,
    selected,
    uri_of,
    whole_description,
)
from gateway.domain.descriptions import NO_GUIDANCE, Guidance, description_id
from gateway.domain.document import Document
from gateway.domain.tools import Kind, Target, UpstreamId
from gateway.errors import BadCommand

CUT = "\N{HORIZONTAL ELLIPSIS}"
SENTENCES = [
    ("Search the mail.", "Search the mail"),
    ("Search the mail. By words.", "Search the mail"),
    ("Search the mail", "Search the mail"),
    ("  Search\n\tthe   mail.\n\nBy words.", "Search the mail"),
    ("Is it there? Then say so.", "Is it there?"),
    ("Reads e.g. a.b and 1.5, i.e. numbers. More.", "Reads e.g. a.b and 1.5, i.e. numbers"),
    ("\u641c\u7d22\u3002\u8fd4\u56de", "\u641c\u7d22"),
    ("\u641c\u7d22", "\u641c\u7d22"),
    ("", ""),
]


@pytest.mark.parametrize(("text", "brief"), SENTENCES)
def test_it_is_the_first_sentence(text: str, brief: str) -> None:
    assert brief_text({"description": text}) == brief


def test_it_is_looked_for_where_a_description_begins() -> None:
    assert brief_text({"description": " " * 3_999 + "a" + " b. c" * 50_000}) == "a"


LONG = [
    ("word " * 100, "word " * 17 + "word" + CUT),
    ("x" * LONGEST_BRIEF, "x" * LONGEST_BRIEF),
    ("x" * (LONGEST_BRIEF + 1), "x" * (LONGEST_BRIEF - 3) + CUT),
    ("x" * (LONGEST_BRIEF - 3) + " yyyyyy", "x" * (LONGEST_BRIEF - 3) + CUT),
    ("x" * (LONGEST_BRIEF - 2) + " yyyyyy", "x" * (LONGEST_BRIEF - 3) + CUT),
    ("\u641c" * 60, "\u641c" * 30 + CUT),
]


@pytest.mark.parametrize(("text", "brief"), LONG)
def test_a_long_sentence_is_cut_between_words_and_characters(text: str, brief: str) -> None:
    assert brief_text({"description": text}) == brief
    assert len(brief.encode()) <= LONGEST_BRIEF


def test_a_tool_that_says_nothing_is_called_by_its_title() -> None:
    assert brief_text({"title": "Send mail"}) == "Send mail"
    assert brief_text({"name": "send"}) == ""
    assert brief_text({"description": ["no text"]}) == ""


def test_the_operators_words_come_first() -> None:
    assert brief_text({"description": "Theirs."}, Guidance(brief="Ours.")) == "Ours."


def test_nothing_else_is_left_of_a_definition() -> None:
    definition = {
        "name": "send",
        "title": "Send",
        "description": "Send mail. At once.",
        "inputSchema": {"type": "object", "properties": {"to": {}}},
        "outputSchema": {"type": "object"},
        "annotations": {"destructiveHint": True, "title": "Send"},
        "_meta": {"x": 1},
        "icons": [],
    }
    assert brief_definition(definition, "mail__send") == {
        "name": "mail__send",
        "description": "Send mail",
        "inputSchema": {"type": "object", "additionalProperties": True},
        "annotations": {"destructiveHint": True},
    }
    for nothing in ("none", {}, {"title": "Send"}):
        assert "annotations" not in brief_definition({"annotations": nothing}, "x")
    assert whole_description(definition, "sha256:1").keys() == {
        *("name", "title", "description", "inputSchema", "outputSchema", "annotations"),
        "definition_hash",
    }


def test_a_uri_names_what_it_selects() -> None:
    names = ("mail__send", "notes__read.v2", "a-b")
    assert selected(uri_of(names)) == names
    told = required("mail__send")["error"]
    assert selected(told["resource_uri"]) == ("mail__send",)
    assert uri_of(["a,b&tools=c"]) == "resource:///tool_descriptions?tools=a%2Cb%26tools%3Dc"


def test_too_many_are_no_selection() -> None:
    with pytest.raises(BadCommand):
        selected(uri_of([f"x{number}" for number in range(21)]))


@pytest.mark.parametrize("public", [None, 1, "douane://notes/notes://a", "douane://notes"])
def test_what_is_called_otherwise_is_no_impostor(public: object) -> None:
    assert not is_another(public)


def test_a_description_is_another_if_anything_of_it_is() -> None:
    def named(server: str, text: str, guidance: Guidance = NO_GUIDANCE) -> str:
        target = Target(server=UpstreamId(server), kind=Kind.TOOL, name="send")
        return description_id(target, Document.of({"name": "send", "description": text}), guidance)

    every = [
        named("mail", "a"),
        named("mail", "b"),
        named("notes", "a"),
        named("mail", "a", Guidance(usage="x")),
        named("mail", "b", Guidance(usage="x")),
        named("mail", "a", Guidance(errors="x")),
        named("mail", "a", Guidance(examples=({"x": 1},))),
        named("mail", "a", Guidance(examples=({"x": 2},))),
        named("mail", "a", Guidance(examples=({"x": 1}, {"x": 2}))),
    ]
    assert len(set(every)) == len(every)
    assert named("mail", "a", Guidance(brief="x")) == named("mail", "a")
