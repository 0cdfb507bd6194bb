"""What a call says beside a tool's arguments needs proof once it has room for something."""

import base64

import pytest

from gateway.flow.telling import IN_A_PIECE, carries

CODE = base64.b64encode(b"the salaries are 5, 6 and 7").decode()


@pytest.mark.parametrize("text", ["", "ger", "what's new?", "user guide", "2026", "a-b_c", "x  y"])
def test_a_few_letters_have_room_for_little(text: str) -> None:
    assert not carries(text, IN_A_PIECE)


@pytest.mark.parametrize(
    "text",
    [
        CODE,
        "." * 256 + CODE,
        "." * 8,
        "!?!?.,.,;;",
        "\U0001f600" * 8,
        "a" + "\ufe00\ufe01" * 5,
        "a" + " \t" * 8 + "b",
        "a" + " " * 12,
        "2026-01-02 2026-03-04",
        "ordinary words that go on for some time",
    ],
)
def test_more_than_that_has_room_for_anything_however_it_is_spelled(text: str) -> None:
    assert carries(text + ("x" if text.endswith(" ") else ""), IN_A_PIECE)
