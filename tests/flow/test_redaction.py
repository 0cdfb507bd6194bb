"""Secrets are taken out of texts: those we hold, and what looks like one."""

import pytest

from gateway.flow import redaction as of
from gateway.flow.credentials import CREDENTIALS
from gateway.flow.redaction import REPLACED, redaction

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
