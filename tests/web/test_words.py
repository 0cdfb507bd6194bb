"""How pages write down what others chose."""

import subprocess

import pytest
from markupsafe import escape

from gateway.pins.visible import visible
from gateway.web.words import href, marked, shell, sides, spelled


@pytest.mark.parametrize(
    "text",
    ["", "mail/send_email", "a <b> & 'c' \"d\"", "eight" + 8 * " " + "spaces", "ten" + 10 * " ", "\\n", "\n", "\u200b", "é", "a\x00b", "\\u{200b}"],
)  # fmt: skip
def test_a_text_is_spelled_the_same_whether_it_hides_something_or_not(text: str) -> None:
    assert spelled(text) == marked(visible(text))
    if visible(text) == text:
        assert spelled(text) == escape(text)


def test_what_is_no_text_is_told_as_json() -> None:
    assert spelled({"b": 1, "a": ["<x>"]}) == escape('{"a":["<x>"],"b":1}')


def test_what_changed_is_marked_and_nothing_that_is_spelled_out_is_cut() -> None:
    was, now = sides("Sends mail.", "Sends \\u{200b}mail.")
    assert was == "Sends mail."
    assert now == 'Sends <ins><span class="unseen">\\u{200b}</span></ins>mail.'


def test_an_address_says_only_what_there_is_to_say() -> None:
    assert href("/desk/pins", server=None, after="") == "/desk/pins"
    assert href("/desk/pins/one", name="a/b?c&d") == "/desk/pins/one?name=a%2Fb%3Fc%26d"


def test_a_command_says_what_the_page_was_asked_and_nothing_else() -> None:
    assert shell("douane", "audit", "query", server="mail", until=None, where="") == (
        "douane audit query --server mail"
    )
    assert shell("douane", "approvals", "list", all=True) == "douane approvals list --all"
    assert shell("douane", "approvals", "list", all=False) == "douane approvals list"


@pytest.mark.parametrize(
    "text", ["two words", "it's; rm -rf /", "$(id)", "`id`", "a\nb", "x\u202ey", "\u200b", "é", "\\", "\U000e0041", "-x", "--all"]
)  # fmt: skip
def test_a_command_is_seen_whole_and_read_by_a_shell_as_what_it_names(text: str) -> None:
    told = shell("said", "a", text)
    assert told.isprintable()
    program = f"said() {{ printf '%s\\0' \"$@\"; }}; {told}"
    done = subprocess.run(["bash", "-c", program], capture_output=True, check=True)
    words = done.stdout.decode().split("\0")[:-1]
    assert words == (["a", "--", text] if text.startswith("-") else ["a", text])
    as_option = shell("douane", "pins", "list", server=text)
    assert as_option.isprintable()
    assert "--server" in as_option
