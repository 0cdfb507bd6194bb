"""URLs on somebody else's word, read so strictly that every reader sees the same host in them."""

import re
from ipaddress import IPv4Address, IPv6Address
from typing import Literal

from gateway.domain._value import value
from gateway.errors import EgressRefused
from gateway.upstream.addresses import IPAddress

_LONGEST = 2048

_LABEL = r"[A-Za-z0-9](?:[A-Za-z0-9_-]{0,61}[A-Za-z0-9])?"
_URL = re.compile(
    rf"(?P<scheme>https?)://(?:(?P<name>{_LABEL}(?:\.{_LABEL})*)|\[(?P<v6>[0-9A-Fa-f:.]{{2,45}})\])"
    r"(?::(?P<port>[1-9][0-9]{0,4}))?(?P<path>/[!$-;=@-\[\]_a-z~]*)?(?:\?(?P<query>[!$-;=?-\[\]_a-z~]*))?",
    re.ASCII,
)
"""A part of RFC 3986: no user information, no fragment, no backslash, no escapes in the host, no
empty label and so no trailing dot, ASCII only."""

_LONGEST_NAME = 253
_LARGEST_PORT = 65535
_DEFAULT_PORTS = {"https": 443, "http": 80}

_NUMERIC = re.compile(r"(?:.*\.)?(?:[0-9]+|0x[0-9a-f]*)", re.ASCII)
"""What `getaddrinfo` and browsers read as an IPv4 address, however odd (`127.1`, `0x7f000001`,
`0177.0.0.1`, `2130706433`): hosts whose last label is a number (WHATWG URL, "ends in a number")."""


@value
class WebUrl:
    """An absolute http(s) URL, taken apart once."""

    scheme: Literal["https", "http"]
    host: str
    """In lower case; an IPv6 address without brackets, in its shortest form."""
    port: int
    path: str
    query: str
    address: IPAddress | None
    """The address that `host` is; `None` if it is a name that has to be looked up."""

    @property
    def target(self) -> str:
        """What is asked for there (RFC 9112 section 3.2.1)."""
        return f"{self.path}?{self.query}" if self.query else self.path

    @property
    def authority(self) -> str:
        """The host as it is written, with its port where that is not the scheme's own."""
        host = f"[{self.host}]" if ":" in self.host else self.host
        is_own = self.port == _DEFAULT_PORTS[self.scheme]
        return host if is_own else f"{host}:{self.port}"


def read_url(text: str) -> WebUrl:
    """Take `text` apart.

    Raises:
        EgressRefused: It is no plain http(s) URL.

    """
    found = _URL.fullmatch(text) if len(text) <= _LONGEST else None
    if found is None:
        raise _refused("not a plain http(s) URL")
    scheme: Literal["https", "http"] = "https" if found["scheme"] == "https" else "http"
    port = int(found["port"] or _DEFAULT_PORTS[scheme])
    if port > _LARGEST_PORT:
        raise _refused("no such port")
    name = found["name"] and found["name"].lower()
    address = _address(name, found["v6"])
    return WebUrl(
        scheme=scheme,
        host=name if address is None else str(address),
        port=port,
        path=found["path"] or "/",
        query=found["query"] or "",
        address=address,
    )


def _address(name: str | None, v6: str | None) -> IPAddress | None:
    try:
        if name is None:
            return IPv6Address(v6 or "")
        if _NUMERIC.fullmatch(name):
            # Four decimal numbers without leading zeros, or nothing.
            return IPv4Address(name)
    except ValueError as error:
        raise _refused("the host is a number, but no IP address") from error
    if len(name) > _LONGEST_NAME:
        raise _refused("the host name is too long")
    return None


def _refused(detail: str) -> EgressRefused:
    return EgressRefused("This URL is not one that the gateway fetches.", detail=detail)
