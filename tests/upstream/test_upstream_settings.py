"""What an operator says of an upstream is refused where it could not be meant."""

from typing import Any

import pytest

from gateway.domain.tools import UpstreamId
from gateway.upstream.settings import HeaderCredential, Limits, Timeouts, UpstreamSettings


@pytest.mark.parametrize(
    "url",
    [
        "",
        "/mcp",
        "mail.example.com/mcp",
        "ftp://mail.example.com/",
        "file:///etc/passwd",
        "http:///mcp",
        "https://user:secret@mail.example.com/mcp",
        "https://user@mail.example.com/mcp",
        "https://mail.example.com/mcp#part",
    ],
)
def test_a_url_that_is_not_plain_http_is_refused(url: str):
    with pytest.raises(ValueError, match="the URL of 'mail'") as refused:
        UpstreamSettings(server=UpstreamId("mail"), url=url)
    assert "secret" not in str(refused.value)


@pytest.mark.parametrize("url", ["http://127.0.0.1:9001/mcp", "https://mail.example.com/a?b=c"])
def test_a_plain_http_url_is_taken(url: str):
    assert UpstreamSettings(server=UpstreamId("mail"), url=url).url == url


@pytest.mark.parametrize(
    "name",
    [
        "",
        "Host",
        "Accept",
        "Content-Type",
        "Content-Length",
        "Accept-Encoding",
        "Mcp-Session-Id",
        "Mcp-Name",
        "Mcp-Param-Region",
        "X Key",
        "X-K\u00e9y",
        "X-Key:",
    ],
)
def test_a_credential_cannot_take_the_place_of_another_header_field(name: str):
    with pytest.raises(ValueError, match="cannot carry a credential"):
        HeaderCredential(name=name, value="secret")


@pytest.mark.parametrize("secret", ["", "two\r\nlines", "nul\0", "\u00e9"])
def test_a_credential_is_one_line(secret: str):
    with pytest.raises(ValueError, match="one line of printable ASCII"):
        HeaderCredential(name="Authorization", value=secret)


def test_a_credential_does_not_show():
    credential = HeaderCredential(name="X-Api-Key", value="s3cret")
    settings = UpstreamSettings(
        server=UpstreamId("mail"), url="https://mail.example.com/", credential=credential
    )
    assert "s3cret" not in repr(settings)


@pytest.mark.parametrize("name", ["connect_s", "idle_s", "hard_s"])
@pytest.mark.parametrize("seconds", [0, -1])
def test_no_timeout_can_be_switched_off(name: str, seconds: float):
    about: dict[str, Any] = {name: seconds}
    with pytest.raises(ValueError, match="positive"):
        Timeouts(**about)


@pytest.mark.parametrize(
    "name", ["result_bytes", "stream_bytes", "json_depth", "connections", "listeners"]
)
def test_no_limit_can_be_switched_off(name: str):
    about: dict[str, Any] = {name: 0}
    with pytest.raises(ValueError, match="positive"):
        Limits(**about)


@pytest.mark.parametrize(
    ("url", "identity"),
    [
        ("https://mail.example.com/mcp", "https://mail.example.com:443/mcp"),
        ("HTTPS://Mail.Example.com:443/mcp", "https://mail.example.com:443/mcp"),
        ("https://mail.example.com/mcp?key=secret", "https://mail.example.com:443/mcp"),
        ("https://mail.example.com/MCP", "https://mail.example.com:443/MCP"),
        ("https://mail.example.com", "https://mail.example.com:443/"),
        ("http://mail.example.com/mcp", "http://mail.example.com:80/mcp"),
        ("http://mail.example.com:443/mcp", "http://mail.example.com:443/mcp"),
        ("http://[::1]:9001/mcp", "http://[::1]:9001/mcp"),
    ],
)
def test_a_server_is_known_by_where_it_is_and_not_by_what_opens_it(url: str, identity: str):
    assert UpstreamSettings(server=UpstreamId("mail"), url=url).identity == identity
