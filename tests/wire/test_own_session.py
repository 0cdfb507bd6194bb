"""Session ids that say what their client can do, and header values that say what they mirror."""

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gateway.wire.headers import decode, encode
from gateway.wire.own_abilities import abilities_of, can_answer, capabilities_of, session_for
from gateway.wire.own_session import LONGEST_S, is_over

DECLARED: list[tuple[Any, dict[str, Any]]] = [
    ({}, {}),
    (None, {}),
    ("elicitation", {}),
    ({"elicitation": True, "sampling": [], "tasks": {}}, {}),
    ({"elicitation": {}}, {"elicitation": {"form": {}}}),
    ({"elicitation": {"url": {}}}, {"elicitation": {"url": {}}}),
    ({"sampling": {"tools": {}}, "x": {}}, {"sampling": {"tools": {}}}),
    ({"roots": {"listChanged": True}}, {"roots": {}}),
]


@pytest.mark.parametrize(("declared", "said"), DECLARED)
def test_a_session_says_what_was_declared_and_nothing_else(declared: Any, said: Any) -> None:
    session = session_for(declared, "nonce", 255.9)
    assert session.endswith(".ff.nonce")
    assert capabilities_of(abilities_of(session)) == said


@pytest.mark.parametrize("nonce", ["nonce", "a.b", "0.1", "12~x"])
def test_a_session_lasts_for_thirty_days(nonce: str) -> None:
    begun_at = 1_800_000_000.5
    session = session_for({}, nonce, begun_at)
    assert LONGEST_S == 30 * 24 * 3600
    assert not is_over(session, begun_at)
    assert not is_over(session, begun_at + LONGEST_S - 1)
    assert is_over(session, begun_at + LONGEST_S)


@pytest.mark.parametrize(
    "session", ["", "e.nonce", "e..nonce", "e.XX.nonce", "e.ff", "e.ff.", "\n"]
)
def test_a_session_that_does_not_say_since_when_is_over(session: str) -> None:
    assert is_over(session, 0.0)


@pytest.mark.parametrize("session", [None, "", "nonce", "e", "e.", "E.x", "\n.x"])
def test_what_is_no_session_of_ours_says_nothing(session: str | None) -> None:
    assert abilities_of(session) == ""


@pytest.mark.parametrize(
    ("abilities", "method", "mode", "can"),
    [
        ("e", "elicitation/create", None, True),
        ("e", "elicitation/create", "url", False),
        ("u", "elicitation/create", "url", True),
        ("u", "elicitation/create", "form", False),
        ("s", "sampling/createMessage", None, True),
        ("r", "roots/list", None, True),
        ("esur", "tasks/get", None, False),
        ("", "roots/list", None, False),
    ],
)
def test_a_client_is_asked_what_it_can_answer(
    abilities: str, method: str, mode: str | None, can: bool
) -> None:
    assert can_answer(abilities, method, {} if mode is None else {"mode": mode}) is can


@given(st.text())
def test_what_a_header_mirrors_is_found_in_it_again(text: str) -> None:
    spelled = encode(text)
    assert spelled.isascii()
    assert decode(spelled) == text
