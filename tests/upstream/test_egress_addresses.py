"""Which addresses are public, and which URLs say plainly where they lead."""

from ipaddress import IPv4Address, IPv6Address, ip_address, ip_network

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gateway.errors import EgressRefused
from gateway.upstream.addresses import is_public
from gateway.upstream.urls import WebUrl, read_url

SPECIAL = (
    # IANA IPv4 Special-Purpose Address Registry
    *("0.0.0.0/8", "10.0.0.0/8", "100.64.0.0/10", "127.0.0.0/8", "169.254.0.0/16"),
    *("172.16.0.0/12", "192.0.0.0/24", "192.0.0.0/29", "192.0.0.8/32", "192.0.0.9/32"),
    *("192.0.0.10/32", "192.0.0.170/32", "192.0.0.171/32", "192.0.2.0/24", "192.31.196.0/24"),
    *("192.52.193.0/24", "192.88.99.0/24", "192.88.99.2/32", "192.168.0.0/16"),
    *("192.175.48.0/24", "198.18.0.0/15", "198.51.100.0/24", "203.0.113.0/24"),
    *("240.0.0.0/4", "255.255.255.255/32"),
    # IANA IPv6 Special-Purpose Address Registry
    *("::1/128", "::/128", "64:ff9b:1::/48", "100::/64", "100:0:0:1::/64", "2001::/23"),
    *("2001::/32", "2001:1::1/128", "2001:1::2/128", "2001:1::3/128", "2001:2::/48"),
    *("2001:3::/32", "2001:4:112::/48", "2001:10::/28", "2001:20::/28", "2001:30::/28"),
    *("2001:db8::/32", "2002::/16", "2620:4f:8000::/48", "3fff::/20", "5f00::/16", "fc00::/7"),
    *("fe80::/10", "fec0::/10"),
    # multicast, and what is not assigned
    *("224.0.0.0/4", "ff00::/8", "::/96", "200::/7", "4000::/3", "e000::/4"),
)

PUBLIC = (
    *("1.1.1.1", "8.8.8.8", "9.255.255.255", "11.0.0.0", "100.63.255.255", "100.128.0.0"),
    *("126.255.255.255", "128.0.0.0", "169.253.255.255", "169.255.0.0", "172.15.255.255"),
    *("172.32.0.0", "192.0.1.0", "192.0.3.0", "192.167.255.255", "192.169.0.0", "198.17.255.255"),
    *("198.20.0.0", "203.0.112.255", "203.0.114.0", "223.255.255.255"),
    *("2001:200::1", "2001:4860:4860::8888", "2606:4700::1111", "2a00:1450::1", "2003::"),
    *("2620:4f:8001::", "3ffe::1", "3fff:1000::"),
)

INSIDE = ("169.254.169.254", "127.0.0.1", "10.0.0.1", "192.168.1.1", "0.0.0.0", "255.255.255.255")


def in_low_bits(prefix: str, inner: str) -> IPv6Address:
    return IPv6Address(int(IPv6Address(prefix)) | int(IPv4Address(inner)))


def in_6to4(inner: str) -> IPv6Address:
    return IPv6Address((0x2002 << 112) | (int(IPv4Address(inner)) << 80) | 1)


def in_teredo(inner: str) -> IPv6Address:
    server, client = int(IPv4Address("65.54.227.120")), int(IPv4Address(inner)) ^ 0xFFFFFFFF
    return IPv6Address((0x20010000 << 96) | (server << 64) | client)


@pytest.mark.parametrize("network", SPECIAL)
def test_f01_no_address_that_a_registry_sets_aside_is_public(network):
    block = ip_network(network)
    middle = block[block.num_addresses // 2]
    assert not any(is_public(address) for address in (block[0], middle, block[-1]))


@pytest.mark.parametrize("address", PUBLIC)
def test_what_no_registry_sets_aside_is_public(address):
    assert is_public(ip_address(address))


@pytest.mark.parametrize("inner", INSIDE)
def test_f02_an_address_that_embeds_one_that_is_not_public_is_not_public(inner):
    embedding = (
        in_low_bits("::ffff:0:0", inner),
        in_low_bits("::", inner),
        in_low_bits("64:ff9b::", inner),
        in_low_bits("64:ff9b:1::", inner),
        in_low_bits("2606:4700::5efe:0:0", inner),
        in_low_bits("2606:4700::200:5efe:0:0", inner),
        in_6to4(inner),
        in_teredo(inner),
    )
    assert [str(address) for address in embedding if is_public(address)] == []


def test_f02_the_addresses_of_the_attack_by_name():
    for text in (
        "64:ff9b::a9fe:a9fe",
        "64:ff9b:1::a9fe:a9fe",
        "2002:a9fe:a9fe::",
        "2001::",
        "::ffff:169.254.169.254",
        "fec0::",
        "fec0::1",
        "fe80::1%eth0",
        "2606:4700::1%eth0",
    ):
        assert not is_public(ip_address(text)), text


def test_a_public_address_may_be_reached_through_nat64_and_in_its_mapped_form():
    for prefix in ("64:ff9b::", "::ffff:0:0", "2606:4700::5efe:0:0", "2606:4700::200:5efe:0:0"):
        assert is_public(in_low_bits(prefix, "8.8.8.8"))


@given(st.ip_addresses(v=4))
def test_an_ipv4_address_is_public_exactly_if_it_lies_in_no_special_block(address):
    blocks = [ip_network(text) for text in SPECIAL if "." in text]
    assert is_public(address) is not any(address in block for block in blocks)


@given(st.ip_addresses(v=4))
def test_an_ipv4_address_is_judged_alike_however_it_is_written_in_ipv6(address):
    for prefix in ("::ffff:0:0", "64:ff9b::", "2606:4700::5efe:0:0"):
        assert is_public(in_low_bits(prefix, str(address))) is is_public(address)


@given(st.ip_addresses(v=6))
def test_a_public_ipv6_address_is_a_global_unicast_one_or_leads_to_a_public_ipv4_one(address):
    if is_public(address):
        assert address in ip_network("2000::/3") or is_public(
            IPv4Address(int(address) & 0xFFFFFFFF)
        )
        assert not any(address in ip_network(text) for text in SPECIAL if ":" in text)


def test_a_url_is_taken_apart_as_it_stands():
    assert read_url("https://idp.example:8443/a%2Fb/c?x=%41&y") == WebUrl(
        scheme="https",
        host="idp.example",
        port=8443,
        path="/a%2Fb/c",
        query="x=%41&y",
        address=None,
    )


def test_what_a_url_leaves_out_is_the_default_and_a_host_has_one_case():
    assert read_url("http://IDP") == WebUrl(
        scheme="http", host="idp", port=80, path="/", query="", address=None
    )


@pytest.mark.parametrize(
    ("url", "host"),
    [
        ("https://192.0.2.1/", "192.0.2.1"),
        ("https://[2606:4700:0:0::A]/", "2606:4700::a"),
        ("https://[::ffff:127.0.0.1]/", "::ffff:7f00:1"),
    ],
)
def test_an_address_in_a_url_is_known_as_one(url, host):
    read = read_url(url)
    assert (read.host, read.address) == (host, ip_address(host))


ODD = (
    *(
        "https://127.1/",
        "https://2130706433/",
        "https://0X7F000001/",
        "https://0x7f000001/",
        "https://0/",
        "https://0x/",
    ),
    *("https://0177.0.0.1/", "https://127.0.0.01/", "https://127.0.0.1.1/", "https://1.2.3/"),
    *("https://256.1.1.1/", "https://0x7f.0.0.1/", "https://0x7f.1/", "https://a.0x7f/"),
    *("https://example.1/", "https://99999999999999999999/"),
)
NOT_PLAIN = (
    *("", "/", "//host/", "host", "ftp://host/", "file:///etc/passwd", "file://host/x"),
    *("gopher://host/", "data:,x", "javascript:1", "unix:///run/x", "HTTPS://host/"),
    *("https:/host/", "https:host", "https://", "https:///x", "https://?x", "https://:443/"),
    *("https://user@host/", "https://user:word@host/", "https://@host/", "https://a@b@host/"),
    *("https://host/#fragment", "https://host#", "https://host\\@evil/", "https://host/\\x"),
    *("https://host./", "https://a.example./", "https://.host/", "https://a..b/", "https://-a/"),
    *("https://h%6fst/", "https://hos\u0442/", "https://\uff11\uff12\uff17.1/"),
    *("https://a\u3002b/", "https://b\u00fccher.example/", "https://1\u2024\u0032/", "https://a_/"),
    *("https://host:/", "https://host:0/", "https://host:00443/", "https://host:65536/"),
    *("https://host:-1/", "https://host:4a/", "https://host:443:443/", "https://[::1/"),
    *("https://::1/", "https://[::1%25eth0]/", "https://[v1.x]/", "https://[]/", "https://[:]/"),
    *("https://[::1]x/", "https://[127.0.0.1]/", "https://ho st/", "https://host/ x"),
    *("https://host\r\n/", "https://host/\r\nx: y", "https://host/\t", "https://host/x\n", "\nx"),
    *("https://host/\x00", "https://host/\u00e9", "https://host/\x7f", "https://host/{x}"),
    *("https://host/" + "x" * 2048, "https://" + "a" * 64 + "/", "https://" + "a." * 127 + "aa/"),
)


@pytest.mark.parametrize("url", ODD)
def test_f02_a_host_that_some_reader_takes_for_an_address_is_refused(url):
    with pytest.raises(EgressRefused):
        read_url(url)


@pytest.mark.parametrize("url", NOT_PLAIN)
def test_a_url_that_two_readers_could_read_in_two_ways_is_refused(url):
    with pytest.raises(EgressRefused):
        read_url(url)


@given(st.text(alphabet="htps:/@.[]%\\?#0x7f1-aZ\u0661", max_size=30))
def test_whatever_is_read_has_a_host_that_stands_in_it_letter_for_letter(text):
    try:
        url = read_url("https://" + text)
    except EgressRefused:
        return
    authority = text.partition("/")[0].partition("?")[0]
    assert "@" not in authority
    if url.address is None:
        assert authority.split(":")[0].lower() == url.host
