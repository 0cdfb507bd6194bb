"""Which destinations a list holds, and which addresses behind them are reached."""

from ipaddress import ip_address

import pytest

from gateway.errors import EgressRefused
from gateway.upstream.reach import Destination, Reach, addresses_of, read_authority


def reach(*texts: str) -> Reach:
    return Reach(destinations=tuple(map(Destination.of, texts)))


@pytest.mark.parametrize(
    "text",
    ["api.example.com:443", "*.example.com:8443", "10.0.0.7:5432", "[::1]:8080", "localhost:80"],
)
def test_a_destination_is_written_as_it_is_read(text):
    assert str(Destination.of(text)) == text


def test_names_are_compared_in_lower_case():
    assert Destination.of("API.Example.com:443") == Destination.of("api.example.com:443")


@pytest.mark.parametrize(
    "text",
    [
        "api.example.com",
        "api.example.com:",
        "api.example.com:0",
        "api.example.com:65536",
        "api.example.com:0443",
        "api.example.com:https",
        "https://api.example.com:443",
        "api.example.com/x:443",
        "emma@api.example.com:443",
        "api.example.com.:443",
        "*:443",
        "**.example.com:443",
        "api.*.com:443",
        "*.10.0.0.7:443",
        "*.[::1]:443",
        "*example.com:443",
        "10.0.0.0/8:443",
        "::1:443",
        "127.1:443",
        "0x7f000001:443",
        "bücher.example:443",
        "",
    ],
)
def test_what_is_no_host_and_port_is_no_destination(text):
    with pytest.raises(ValueError, match="write HOST:PORT"):
        Destination.of(text)


def test_a_whole_top_level_domain_is_no_destination():
    with pytest.raises(ValueError, match=r"`\*\.com:443` is nearly everything"):
        Destination.of("*.com:443")


@pytest.mark.parametrize(
    ("listed", "asked"),
    [
        ("api.example.com:443", "api.example.com:443"),
        ("api.example.com:443", "API.EXAMPLE.COM:443"),
        ("*.example.com:443", "a.example.com:443"),
        ("*.example.com:443", "a.b.example.com:443"),
        ("127.0.0.1:80", "127.0.0.1:80"),
        ("[::1]:80", "[0:0:0:0:0:0:0:1]:80"),
    ],
)
def test_what_is_listed_may_be_asked_for(listed, asked):
    reach("other.example.org:1", listed).require(read_authority(asked))


@pytest.mark.parametrize(
    ("listed", "asked"),
    [
        ("api.example.com:443", "api.example.com:444"),
        ("api.example.com:443", "example.com:443"),
        ("api.example.com:443", "a.api.example.com:443"),
        ("api.example.com:443", "api.example.com.evil.example:443"),
        ("*.example.com:443", "example.com:443"),
        ("*.example.com:443", "a.example.com:80"),
        ("*.example.com:443", "evilexample.com:443"),
        ("127.0.0.1:80", "[::ffff:127.0.0.1]:80"),
        ("127.0.0.1:80", "localhost:80"),
        ("127.0.0.1:80", "127.0.0.2:80"),
    ],
)
def test_what_is_not_listed_is_refused(listed, asked):
    with pytest.raises(EgressRefused) as refused:
        reach(listed).require(read_authority(asked))
    assert refused.value.detail == "it is not listed"


def test_an_empty_list_is_no_network():
    with pytest.raises(EgressRefused):
        reach().require(read_authority("api.example.com:443"))


def admits(listed: Reach, asked: str, *addresses: str) -> bool:
    try:
        listed.admit(read_authority(asked), tuple(map(ip_address, addresses)))
    except EgressRefused:
        return False
    return True


@pytest.mark.parametrize(
    "address",
    ["127.0.0.1", "10.0.0.7", "169.254.169.254", "::1", "fe80::1", "::ffff:10.0.0.7", "100.64.0.1"],
)
def test_a_listed_name_leads_to_no_address_that_is_not_public(address):
    listed = reach("api.example.com:443")
    assert not admits(listed, "api.example.com:443", address)
    assert not admits(listed, "api.example.com:443", "93.184.215.14", address)
    assert admits(listed, "api.example.com:443", "93.184.215.14")


def test_unless_the_address_is_listed_itself_with_its_port():
    listed = reach("db.example.com:5432", "10.0.0.7:5432")
    assert admits(listed, "db.example.com:5432", "10.0.0.7")
    assert admits(listed, "10.0.0.7:5432", "10.0.0.7")
    assert not admits(listed, "db.example.com:5432", "10.0.0.8")
    other_port = reach("db.example.com:5432", "10.0.0.7:443")
    assert not admits(other_port, "db.example.com:5432", "10.0.0.7")


@pytest.mark.parametrize("said", [(), ("no-address",)])
def test_a_resolver_that_says_no_address_has_said_nothing(said):
    with pytest.raises(OSError, match="no address"):
        addresses_of(said)
