"""Whose address is recorded, also behind proxies."""

import pytest

from gateway.web.peers import client_address

PROXIES = ["10.0.0.0/8", "2001:db8::/32"]


def address(peer: str | None, *forwarded: str, trusted: list[str] | None = None) -> str:
    """Return the source of a request from `peer` with these `X-Forwarded-For` lines."""
    scope = {
        "client": None if peer is None else (peer, 50000),
        "headers": [(b"host", b"gw"), *((b"x-forwarded-for", f.encode()) for f in forwarded)],
    }
    return client_address(PROXIES if trusted is None else trusted)(scope)


@pytest.mark.parametrize(
    ("peer", "forwarded", "expected"),
    [
        ("192.0.2.7", [], "192.0.2.7"),
        ("10.0.0.1", [], "10.0.0.1"),
        ("10.0.0.1", ["192.0.2.7"], "192.0.2.7"),
        ("10.0.0.1", ["192.0.2.7, 10.0.0.2"], "192.0.2.7"),
        ("2001:db8::1", ["192.0.2.7"], "192.0.2.7"),
        ("10.0.0.1", ["10.0.0.3,10.0.0.2"], "10.0.0.1"),
        ("10.0.0.1", [" , "], "10.0.0.1"),
        (None, ["192.0.2.7"], ""),
    ],
)
def test_the_source_is_the_first_from_the_right_that_is_no_proxy(peer, forwarded, expected):
    assert address(peer, *forwarded) == expected


def test_a_peer_that_is_no_proxy_of_ours_cannot_name_another():
    assert address("192.0.2.7", "203.0.113.9") == "192.0.2.7"
    assert address("192.0.2.7", "203.0.113.9", trusted=[]) == "192.0.2.7"


def test_what_stands_further_left_anybody_could_have_written():
    assert address("10.0.0.1", "203.0.113.9, 192.0.2.7") == "192.0.2.7"
    assert address("10.0.0.1", "203.0.113.9", "192.0.2.7") == "192.0.2.7"
    assert address("10.0.0.1", "10.9.9.9, 192.0.2.7, 10.0.0.2") == "192.0.2.7"


def test_what_is_no_address_is_told_as_it_stands_and_trusted_for_nothing():
    assert address("10.0.0.1", "203.0.113.9, unknown") == "unknown"
    assert address("unix", "192.0.2.7") == "unix"


def test_behind_very_many_proxies_it_is_the_peers():
    assert address("10.0.0.1", ",".join(["192.0.2.7", *["10.0.0.2"] * 31])) == "192.0.2.7"
    assert address("10.0.0.1", ",".join(["192.0.2.7", *["10.0.0.2"] * 32])) == "10.0.0.1"
    assert address("10.0.0.1", "192.0.2.7", *["10.0.0.2"] * 32) == "10.0.0.1"
