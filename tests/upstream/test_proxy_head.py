"""One reading of what a jailed server asks of its proxy."""

import pytest

from gateway.errors import ProtocolError
from gateway.upstream.proxy_head import ProxyRequest, read_request
from gateway.upstream.urls import read_url


def head(*lines: str) -> bytes:
    return "".join(f"{line}\r\n" for line in (*lines, "")).encode("latin-1")


def refused(*lines: str) -> str:
    with pytest.raises(ProtocolError) as error:
        read_request(head(*lines))
    assert error.value.status == 400
    return error.value.detail


@pytest.mark.parametrize("host", ["api.example.com", "api.example.com:443", "API.example.com:443"])
def test_a_tunnel_is_to_a_host_and_a_port(host):
    read = read_request(head("CONNECT api.example.COM:443 HTTP/1.1", f"Host: {host}"))
    assert read == ProxyRequest(url=read_url("https://api.example.com:443/"), tunnel=True)
    assert read == read_request(head("CONNECT api.example.com:443 HTTP/1.1"))


@pytest.mark.parametrize(
    "target",
    [
        "api.example.com",
        "emma@api.example.com:443",
        "emma:secret@api.example.com:443",
        "api.example.com.:443",
        "api.example.com:443/",
        "api.example.com:443#x",
        "https://api.example.com:443",
        "api%2eexample.com:443",
        "api.example.com:0443",
        "api.example.com:99999",
        "127.1:443",
        "2130706433:443",
        "0x7f.1:443",
        "[fe80::1%25eth0]:443",
        "::1:443",
        ":443",
    ],
)
def test_a_tunnel_to_anything_else_is_none(target):
    assert refused(f"CONNECT {target} HTTP/1.1").startswith("its target is ")


def test_a_plain_request_is_sent_on_for_its_target_and_nothing_after_it():
    read = read_request(
        head(
            "POST http://API.example.com:8080/a/b?c=d HTTP/1.1",
            "host: api.example.com:8080",
            "Content-Length: 12",
            "Connection: keep-alive, X-Hop, Content-Length",
            "Proxy-Connection: keep-alive",
            "Proxy-Authorization: Basic eA==",
            "Upgrade: websocket",
            "X-Hop: 1",
            "Accept: */*",
        )
    )
    assert read == ProxyRequest(
        url=read_url("http://api.example.com:8080/a/b?c=d"),
        tunnel=False,
        head=head(
            "POST /a/b?c=d HTTP/1.1",
            "Host: api.example.com:8080",
            "Content-Length: 12",
            "Accept: */*",
            "Connection: close",
        ),
        body_bytes=12,
    )


def test_a_plain_request_to_a_bare_host_is_for_its_root():
    read = read_request(head("GET http://[::1] HTTP/1.1", "Host: [::1]"))
    assert read.head == head("GET / HTTP/1.1", "Host: [::1]:80", "Connection: close")


@pytest.mark.parametrize(
    ("lines", "told"),
    [
        (["GET / HTTP/1.1", "Host: api.example.com"], "its target is neither"),
        (["GET https://api.example.com/ HTTP/1.1"], "its target is neither"),
        (["GET ftp://api.example.com/ HTTP/1.1"], "its target is neither"),
        (["OPTIONS * HTTP/1.1"], "its target is neither"),
        (["GET http://emma@api.example.com/ HTTP/1.1"], "its target is not a plain"),
        (["GET http://api.example.com./ HTTP/1.1"], "its target is not a plain"),
        (["GET http://api.example.com/ HTTP/1.0"], "its first line is none"),
        (["GET  http://api.example.com/ HTTP/1.1"], "its first line is none"),
        (["get http://api.example.com/ HTTP/1.1"], "its first line is none"),
        (["", "GET http://api.example.com/ HTTP/1.1"], "its first line is none"),
        (["GET http://api.example.com/ HTTP/1.1", "Host: other.example.com"], "its Host is not"),
        (["GET http://a.example/ HTTP/1.1", "Host: a.example:81"], "its Host is not"),
        (["CONNECT a.example:443 HTTP/1.1", "Host: b.example:443"], "its Host is not"),
        (["CONNECT a.example:443 HTTP/1.1", "Host: a.example", "host: a.example"], "more than one"),
        (["GET http://a.example/ HTTP/1.1", "A : b"], "a header is none"),
        (["GET http://a.example/ HTTP/1.1", "A: b", " c"], "a header is none"),
        (["GET http://a.example/ HTTP/1.1", "A: b\nHost: c"], "a header is none"),
        (["GET http://a.example/ HTTP/1.1", "A: b\rHost: c"], "a header is none"),
        (["GET http://a.example/ HTTP/1.1", "A: b\0"], "a header is none"),
        (["GET http://a.example/ HTTP/1.1", "nothing"], "a header is none"),
        (["POST http://a.example/ HTTP/1.1", "Transfer-Encoding: chunked"], "comes in chunks"),
        (["POST http://a.example/ HTTP/1.1", "Content-Length: +1"], "Content-Length is none"),
        (["POST http://a.example/ HTTP/1.1", "Content-Length: 1, 1"], "Content-Length is none"),
        (
            ["POST http://a.example/ HTTP/1.1", "Content-Length: 1", "content-length: 1"],
            "Content-Length is none",
        ),
    ],
    ids=lambda given: given if isinstance(given, str) else None,
)
def test_what_can_be_read_in_two_ways_is_refused(lines, told):
    assert told in refused(*lines)
