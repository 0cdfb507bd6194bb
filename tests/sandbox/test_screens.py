"""What a program tells is fit to be read: nothing unseen, nothing secret, not too long."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gateway.sandbox.screen import Console, one_line, screened, screened_value, visible
from tests.sandbox.brokers import unchanged


def redact(text: str) -> str:
    return text.replace("SECRET", "[x]")


UNSEEN = (
    *(0x00, 0x08, 0x0B, 0x0D, 0x1B, 0x7F, 0x85, 0xAD, 0x61C, 0x180E),
    *(0x200B, 0x200E, 0x200F, 0x2028, 0x2029, 0x202A, 0x202E, 0x2060, 0x2066, 0x2069),
    *(0xFE0F, 0xFEFF, 0xFFF9, 0xE0001, 0xE0041, 0xE0100, 0xD800),
)


@pytest.mark.parametrize("character", [chr(one) for one in UNSEEN], ids=map(hex, UNSEEN))
def test_what_no_screen_shows_is_gone(character: str) -> None:
    assert visible(f"a{character}b") == "ab"


@pytest.mark.parametrize(
    "text", ["a\tb\n", "ÄÖ ß", "日本語", "می‌خواهم", "👨‍👩‍👧", "a\ufffdb"], ids=ascii
)
def test_what_is_seen_stays(text: str) -> None:
    assert visible(text) == text


def test_one_line_is_one_line() -> None:
    assert one_line("  a\n\n b\u2028c ", 10) == "a bc"
    assert one_line("abcdef", 4) == "abc\u2026"


def test_a_secret_with_a_gap_in_it_is_found() -> None:
    assert screened("a SEC\u200bRET b", redact, 100) == "a [x] b"


def test_of_a_long_text_the_head_and_the_tail_are_left() -> None:
    assert screened("a" * 100 + "b" * 100, unchanged, 40) == (
        "a" * 30 + "\n[... 160 characters left out ...]\n" + "b" * 10
    )


def test_a_secret_is_not_cut_before_it_is_found() -> None:
    text = "a" * 27 + "SECRET" + "b" * 100
    assert "SEC" not in screened(text, redact, 40)


def test_values_are_screened_whole() -> None:
    value = {"a\u202e": ["SECRET", 1, None, {"SECRET": True}], "b": 1.5}
    assert screened_value(value, redact) == {"a": ["[x]", 1, None, {"[x]": True}], "b": 1.5}


@given(st.lists(st.text("ab\n", max_size=40), max_size=30))
def test_little_is_told_as_it_was_printed(parts: list[str]) -> None:
    console = Console(1200)
    for part in parts:
        console.write(part)
    assert console.shown(unchanged) == "".join(parts)


@given(st.integers(10_000, 40_000), st.integers(1, 5_000))
def test_much_is_told_with_how_much_is_missing(total: int, step: int) -> None:
    text = "".join(f"{n:05}" for n in range(total // 5))
    console = Console(1000)
    for begin in range(0, len(text), step):
        console.write(text[begin : begin + step])
    shown = console.shown(unchanged)
    head, _, rest = shown.partition("\n[... ")
    missing, _, tail = rest.partition(" characters left out ...]\n")
    assert text.startswith(head)
    assert text.endswith(tail)
    assert len(head) + int(missing) + len(tail) == len(text)
    assert len(head) + len(tail) == 1000


def test_no_half_of_a_secret_is_told_where_it_was_cut() -> None:
    for shift in range(6):
        console = Console(1000)
        console.write("-" * shift + "SECRET" * 5000 + "-" * shift)
        shown = console.shown(lambda text: text.replace("SECRET", ""))
        assert not set(shown) & set("SECRT")


def test_a_console_goes_on_where_another_stopped() -> None:
    first = Console(100)
    first.write("a" * 10_000)
    second = Console(100, before=first.kept)
    second.write("b" * 10)
    assert second.shown(unchanged).endswith("a" * 15 + "b" * 10)
    assert second.kept[2] == 10_010 - 2 * 4196
