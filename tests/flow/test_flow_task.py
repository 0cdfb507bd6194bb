"""What a prompt names, and what only looks so."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gateway.domain.flow import Task
from gateway.flow.task import Words, is_number, names, narrowed


@pytest.mark.parametrize(
    ("prompt", "text"),
    [
        ("Write to John.Doe@A.Example.", "john.doe@a.example"),
        ("Write to john.doe@a.example", "JOHN.DOE@a.example"),
        ("See example.org/path.", "https://example.org/path"),
        ("See example.org", "https://example.org/"),
        ("See https://example.org/a", "https://example.org/a/"),
        ("Ask Bob", "Bob"),
        ("(DE89370400440532013000)", "DE89370400440532013000"),
    ],
)
def test_people_write_an_address_in_several_ways(prompt: str, text: str) -> None:
    assert names(prompt, text)


@pytest.mark.parametrize(
    ("prompt", "text"),
    [
        ("Write to john.doe@a.example", "doe@a.example"),
        ("Write to doe@a.example", "john.doe@a.example"),
        ("Write to doe@a.example.com", "doe@a.example"),
        ("Write to joe@kite.example", "joe@\u212aite.example"),
        ("Write to joe@kite.example", "joe@k\u0456te.example"),
        ("Write to joe@kite.example", "joe\uff20kite.example"),
        ("See https://example.org/@AbC", "https://example.org/@abc"),
        ("See https://example.org/A", "https://example.org/a"),
        ("See https://example.org", "http://example.org"),
        ("See http://example.org", "ftp://example.org"),
        ("See example.org/path", "https://example.org"),
        ("Tell Mark", "https://Mark"),
        ("Pay it on June 13", "http://June"),
        ("Tell mark of it", "Mark"),
        ("Say abc", "abc"),
        ("Say BOB", "BOB"),
        ("Tell bob", "Bob"),
        ("Take 12", "12"),
        ("Ask Bobby", "Bob"),
        ("Ask O'Bob", "Bob"),
        ("Ask Bob's", "Bob"),
        ("Ask Bob.Smith", "Bob"),
        (" general ", " general "),
        ("anything", ""),
    ],
)
def test_what_is_written_otherwise_is_not_named(prompt: str, text: str) -> None:
    assert not names(prompt, text)


@given(st.text(), st.text())
def test_a_named_text_stands_in_the_prompt_in_some_case(prompt: str, text: str) -> None:
    assert not names(prompt, text) or text.casefold().strip() in prompt.casefold()


@pytest.mark.parametrize(
    ("text", "had"),
    [
        ("client-meeting.docx", True),
        ("CLIENT-meeting.docx", True),
        ("the  report", True),
        ("report.docx", False),
        ("meeting.docx", False),
        ("client", False),
        ("Q3 numbers", True),
        ("2024-05-15", False),
        ("the", False),
        ("not here", False),
        ("", False),
        ("----", False),
    ],
)
def test_a_prompt_has_the_words_of_a_title(text: str, had: bool) -> None:
    words = Words("Read 'Client-Meeting.docx', the report of 2024-05-15, and Q3 numbers!")
    assert words.have(text) is had


def test_a_prompt_is_read_up_to_a_size() -> None:
    far = "a " * 16_384 + "title.docx"
    assert not Words(far).have("title.docx")
    assert not names(far, "title.docx")
    assert Words("title.docx " + far).have("title.docx")


@given(
    st.text(st.sampled_from("ab1 .,'-\u00e9_"), max_size=20),
    st.text(st.sampled_from("ab1 .,'-\u00e9_"), max_size=8),
)
def test_words_and_names_agree_on_what_stands_as_a_whole(prompt: str, text: str) -> None:
    if Words(prompt).have(text) and len(text.split()) == 1 and text == text.strip():
        assert names(" ".join(prompt.split()), text)


@pytest.mark.parametrize(
    ("text", "told"), [("13", True), ("2024-05-15", True), ("-1.5", True), ("a1", False)]
)
def test_a_number_names_nothing(text: str, told: bool) -> None:
    assert is_number(text) is told


@pytest.mark.parametrize(
    ("begun", "declared", "left"),
    [
        (None, None, None),
        (Task(prompt="a"), None, Task(prompt="a")),
        (None, Task(tools=("x",)), Task(tools=("x",))),
        (Task(prompt="a"), Task(prompt="b"), Task(prompt="a")),
        (Task(), Task(prompt="b"), Task(prompt="b")),
        (Task(tools=("x", "y")), Task(tools=("y", "z")), Task(tools=("y",))),
        (Task(tools=("x",)), Task(), Task(tools=("x",))),
        (Task(), Task(tools=("x",)), Task(tools=("x",))),
        (Task(tools=()), Task(tools=("x",)), Task(tools=())),
    ],
)
def test_a_call_only_narrows_the_task_of_its_run(
    begun: Task | None, declared: Task | None, left: Task | None
) -> None:
    assert narrowed(begun, declared) == left


@pytest.mark.parametrize("after", [".They sent it", "!Then go", ".Let's go"])
def test_a_sentence_ends_where_the_space_after_it_was_forgotten(after: str) -> None:
    assert names(f"Post it on www.our-company.com{after}", "www.our-company.com")


@pytest.mark.parametrize(
    "after", [".Evil.example now", ".Evil/path", ".evil now", ".EVIL", ".Evil", ".Evil@b.example"]
)
def test_what_goes_on_is_another_host(after: str) -> None:
    assert not names(f"Post it on www.our-company.com{after}", "www.our-company.com")
