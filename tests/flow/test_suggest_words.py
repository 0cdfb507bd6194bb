"""Words of identifiers, and the tables of what they stand for."""

import pytest

from gateway.flow import words
from gateway.flow.words import VERBS, VERBS_OR_NOUNS, base_of, singular, words_of


@pytest.mark.parametrize(
    ("name", "expected"),
    [
        ("sendEmail", ("send", "email")),
        ("send_email-now.v2", ("send", "email", "now", "v", "2")),
        ("HTTPRequest", ("http", "request")),
        ("listPRs", ("list", "pr")),
        ("SEND", ("send",)),
        ("getAPIKeys", ("get", "api", "keys")),
        ("ümlaut", ("mlaut",)),
        ("", ()),
    ],
)
def test_identifiers_are_split_however_they_are_written(
    name: str, expected: tuple[str, ...]
) -> None:
    assert words_of(name) == expected


def test_endings_are_taken_off() -> None:
    assert [singular(word) for word in ("emails", "entries", "boxes", "address", "bus", "s")] == [
        "email",
        "entry",
        "box",
        "address",
        "bus",
        "s",
    ]
    assert "delete" in base_of("deleting")
    assert "run" in base_of("running")
    assert "send" in base_of("sends")
    assert base_of("thing") == ("thing", "thing")


def test_no_verb_stands_for_two_effects() -> None:
    assert not VERBS.keys() & VERBS_OR_NOUNS.keys()


def test_the_tables_hold_base_forms_in_lower_case() -> None:
    tables = [
        table
        for name, table in vars(words).items()
        if name.isupper() and isinstance(table, dict | frozenset)
    ]
    assert len(tables) > 15
    for table in tables:
        for entry in table:
            for word in entry if isinstance(entry, tuple) else (entry,):
                assert word == word.lower()
                assert word.replace("-", "").isalnum()
