"""A challenge is read as it was written, and an odd one is none."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gateway.broker import urls
from gateway.broker.challenge import Challenge, read_challenge, scopes_in
from gateway.broker.urls import covers


@pytest.mark.parametrize(
    ("text", "challenge"),
    [
        ("", Challenge()),
        ("Bearer", Challenge()),
        ('Bearer scope="a b", error="x"', Challenge(scopes=("a", "b"), error="x")),
        ("bearer scope=a", Challenge(scopes=("a",))),
        ('Bearer realm="a, scope=evil", scope="b"', Challenge(scopes=("b",))),
        (r'Bearer realm="a\", scope=evil", scope="b"', Challenge(scopes=("b",))),
        ('Basic realm="x", scope="no", Bearer scope="yes"', Challenge(scopes=("yes",))),
        ('Bearer scope="a", Basic realm="x", scope="no"', Challenge(scopes=("a",))),
        ('Bearer scope="a", scope="b"', Challenge(scopes=("a",))),
        ('Bearer scope="a", Bearer error="e"', Challenge(scopes=("a",))),
        ("Negotiate abc==, Bearer error=e", Challenge(error="e")),
        ('Bearer resource_metadata="https://a/b?c=d"', Challenge(resource_metadata="https://a/b?c=d")),
        ('Digest scope="a"', Challenge()),
    ],
)  # fmt: skip
def test_the_bearer_challenge_counts(text, challenge):
    assert read_challenge(text) == challenge


@given(st.text(st.sampled_from("Bearer scope=\"a\\,= b'x")))
def test_nothing_that_is_said_is_a_fault(text):
    assert isinstance(read_challenge(text), Challenge)


def test_scopes_are_what_can_be_one():
    said = ["a", 7, "b c", 'd"', "é", "", "a", "x" * 129, "e"]
    assert scopes_in(said) == ("a", "e")
    assert len(scopes_in(f"s{number}" for number in range(1000))) == 64


@pytest.mark.parametrize(
    ("resource", "url", "covered"),
    [
        ("https://a/mcp", "https://a/mcp", True),
        ("https://a:443/mcp", "https://A/mcp", True),
        ("https://a/", "https://a/mcp", True),
        ("https://a", "https://a/mcp", True),
        ("https://a/m", "https://a/mcp", False),
        ("http://a", "https://a/mcp", False),
        ("https://a:444", "https://a/mcp", False),
        ("https://a#f", "https://a/mcp", False),
        ("https://a?x", "https://a/mcp", False),
        ("https://x@a", "https://a/mcp", False),
        ("https://a:x", "https://a/mcp", False),
        ("https://[", "https://a/mcp", False),
    ],
)
def test_a_resource_stands_for_what_is_below_it(resource, url, covered):
    assert covers(resource, url) is covered


def test_a_long_challenge_is_read_in_no_time():
    assert read_challenge('Bearer scope="a", ' + ("x" * 8000 + '"') * 200) == Challenge(
        scopes=("a",)
    )


@pytest.mark.parametrize("resource", ["https://a\u0301\u0316.example", "https://a/" + "x" * 4_000])
def test_a_resource_that_is_no_plain_url_is_not_taken_apart(resource, monkeypatch):
    taken: list[str] = []
    monkeypatch.setattr(urls, "urlsplit", taken.append)
    assert not covers(resource, "https://a.example/mcp")
    assert taken == []


@pytest.mark.parametrize("filler", ["," * 60_000, "a=" + " " * 60_000, "a " * 30_000])
def test_a_challenge_of_commas_and_blanks_is_read_in_no_time(filler: str) -> None:
    assert read_challenge(f"Bearer {filler}") == Challenge()
