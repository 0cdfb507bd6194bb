import pytest

from gateway.search import words
from gateway.search.words import Stems, spaced, telling, words_of


@pytest.mark.parametrize(
    ("identifier", "expected"),
    [
        ("getUserName", "get User Name"),
        ("HTTPServer2", "HTTP Server2"),
        ("list_open-files.v2", "list open files v2"),
    ],
)
def test_identifiers_are_words(identifier, expected):
    assert spaced(identifier) == expected


def test_scripts_without_spaces_are_read_in_pairs():
    assert words_of("必应搜索 Bing") == ["必应", "应搜", "搜索", "bing"]


def test_what_politeness_needs_is_left_out_unless_nothing_else_is_said():
    assert telling(words_of("Can you please send it to the printer")) == ["send", "printer"]
    assert telling(words_of("what is it")) == ["what", "is", "it"]


def test_words_of_one_stem_are_one_term():
    stems = Stems()
    assert stems.of(["searching", "searches", "café", "searching"]) == [
        "search",
        "search",
        "cafe",
        "search",
    ]
    stems.close()


def test_what_others_asked_for_is_not_remembered_without_end(monkeypatch):
    monkeypatch.setattr(words, "_MOST_KNOWN", 3)
    stems = Stems()
    for number in range(10):
        assert stems.of([f"word{number}", "running"])[1] == "run"
    assert len(stems._known) <= 3
    stems.close()


def test_many_words_are_learned_in_as_few_statements_as_two():
    """Between any two of them another thread may go on first, and each row of its own is a write."""
    stems = Stems()
    said: list[str] = []
    stems._database.set_trace_callback(said.append)
    for many in (2, 1_000):
        words = [f"walking{number}s" for number in range(many)]
        said.clear()
        assert stems.of(words) == [f"walking{number}" for number in range(many)]
        assert len([one for one in said if not one.startswith("--")]) == 4
    stems.close()
