"""A session id opens for the one principal and the one upstream it was sealed for."""

import hmac

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gateway.errors import UpstreamFailed
from gateway.wire.session import not_found, says_url, seal, unseal

KEY = b"k" * 32
VISIBLE = st.text(st.characters(min_codepoint=0x21, max_codepoint=0x7E), min_size=1)


def test_a_sealed_id_is_the_id_and_a_keyed_hash():
    parts = b"\0\0\0\4mail\0\0\0\5alice\0\0\0\3sid"
    mac = hmac.new(KEY, parts, "sha256").hexdigest()
    assert seal(KEY, "mail", "alice", "sid") == f"c2lk.{mac}"


@given(
    VISIBLE,
    st.text(st.characters(exclude_categories=["Cs"])),
    st.text(st.characters(exclude_categories=["Cs"])),
)
def test_its_own_principal_and_upstream_open_it(session: str, upstream: str, principal: str):
    sealed = seal(KEY, upstream, principal, session)
    assert unseal(KEY, upstream, principal, sealed) == session
    assert sealed.isascii()
    assert sealed.isprintable()
    assert " " not in sealed


@pytest.mark.parametrize(
    ("key", "upstream", "principal"),
    [(b"x" * 32, "mail", "alice"), (KEY, "web", "alice"), (KEY, "mail", "bob"), (KEY, "maila", "lice")],
)  # fmt: skip
def test_nobody_else_opens_it(key: bytes, upstream: str, principal: str):
    assert unseal(key, upstream, principal, seal(KEY, "mail", "alice", "sid")) is None


@given(st.text())
def test_nothing_else_opens(sealed: str):
    assert unseal(KEY, "mail", "alice", sealed) is None


@given(st.data())
def test_no_byte_of_it_can_be_changed(draw: st.DataObject):
    sealed = seal(KEY, "mail", "alice", "session-id-1")
    place = draw.draw(st.integers(0, len(sealed) - 1))
    other = draw.draw(
        st.characters(min_codepoint=0x20, max_codepoint=0xFF).filter(
            lambda char: char != sealed[place]
        )
    )
    assert unseal(KEY, "mail", "alice", sealed[:place] + other + sealed[place + 1 :]) is None
    assert unseal(KEY, "mail", "alice", sealed[:place]) is None
    assert unseal(KEY, "mail", "alice", sealed + other) is None


@pytest.mark.parametrize("spelling", ["c2lk=", "c2l\nk", "c2lk==", "c2lk*", "c2lk.\ud800"])
def test_an_id_has_one_spelling(spelling: str):
    mac = seal(KEY, "mail", "alice", "sid").partition(".")[2]
    assert unseal(KEY, "mail", "alice", f"{spelling}.{mac}") is None


@pytest.mark.parametrize("session", ["", "a b", "a\n", "é", "\x7f"])
def test_an_upstreams_id_is_visible_ascii(session: str):
    with pytest.raises(UpstreamFailed):
        seal(KEY, "mail", "alice", session)


def test_a_bad_session_makes_the_client_begin_a_new_one():
    error = not_found(4)
    assert (error.status, error.rpc_code, error.rpc_id) == (404, -32600, 4)


@given(VISIBLE)
def test_what_the_handshake_declared_is_sealed_with_it(session: str):
    plain = seal(KEY, "mail", "alice", session)
    declared = seal(KEY, "mail", "alice", session, takes_urls=True)
    assert (says_url(plain), says_url(declared)) == (False, True)
    assert unseal(KEY, "mail", "alice", declared) == session
    text, _, mac = plain.partition(".")
    assert unseal(KEY, "mail", "alice", f"{text}~u.{mac}") is None
    assert unseal(KEY, "mail", "alice", declared.replace("~u", "")) is None
    assert unseal(KEY, "mail", "alice", declared.replace("~u", "~u~u")) is None
