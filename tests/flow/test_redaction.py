"""Secrets are taken out of texts: those we hold, and what looks like one."""

import json

import pytest

from gateway.flow import redaction as of
from gateway.flow.credentials import CREDENTIALS
from gateway.flow.redaction import REPLACED, RecordScreen, redaction
from tests.took import took_s

GITHUB = "ghp_" + "aB3dE5fG7hJ9kL1mN2pQ4rS6tU8vW0xY1zA2"


def test_a_secret_of_ours_is_taken_out_word_for_word() -> None:
    redact = redaction(["correct horse battery", "short"])
    assert redact("say correct horse battery, short") == f"say {REPLACED}, short"


def test_the_longer_of_two_secrets_goes_first() -> None:
    assert redaction(["abcdefgh", "abcdefghijkl"])("abcdefghijkl!") == f"{REPLACED}!"


def test_what_looks_like_a_secret_is_taken_out_wherever_it_stands() -> None:
    redact = redaction()
    assert redact(f"é {GITHUB} and {GITHUB}.") == f"é {REPLACED} and {REPLACED}."


def test_what_is_no_secret_stays_as_it_is() -> None:
    text = "password: required; see https://example.com/docs?x=1 \ud800"
    assert redaction()(text) == text


def test_a_text_in_which_nothing_starts_like_a_secret_is_looked_at_once(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """A program's value can have a hundred thousand of them."""
    monkeypatch.setattr(of, "CREDENTIALS", (None,) * len(CREDENTIALS))
    assert redaction()("hello") == "hello"


def test_a_text_of_line_breaks_is_looked_at_about_as_soon_as_another() -> None:
    """Taken out one by one they held the interpreter for half a second."""
    screen = RecordScreen()
    plain, breaks = rb'say "\"' * 130_000, rb"\n" * 500_000
    usual = took_s(lambda: screen.suspects(plain))
    assert took_s(lambda: screen.suspects(breaks)) < 5 * usual


@pytest.mark.parametrize("code", range(32))
def test_no_secret_hides_behind_a_control_character_in_any_spelling(code: int) -> None:
    for escape in {rf"\u{code:04x}", rf"\u{code:04X}", json.dumps(chr(code))[1:-1]}:
        assert RecordScreen().suspects(f"{escape}Bearer aB3dE5fG7hJ9kL1m".encode())
        assert RecordScreen().suspects(f"\\{escape}Bearer aB3dE5fG7hJ9kL1m".encode())
