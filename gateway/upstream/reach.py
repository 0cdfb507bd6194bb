"""What of the network a jailed server may reach: places that the operator lists, and no others."""

import re
from collections.abc import Sequence
from ipaddress import ip_address
from typing import Final, Self

from gateway.domain._value import value
from gateway.errors import EgressRefused
from gateway.upstream.addresses import IPAddress, is_public
from gateway.upstream.urls import WebUrl, read_url

_AUTHORITY: Final = re.compile(r"[^/?#]*:[1-9][0-9]{0,4}", re.ASCII)
"""A host with a port: neither is ever understood (RFC 9110 section 9.3.6)."""
_WRONG: Final = "write HOST:PORT, such as `api.example.com:443` or `*.example.com:443`"
PROXIES: Final = frozenset(
    name
    for written in ("HTTP_PROXY", "HTTPS_PROXY", "NO_PROXY")
    for name in (written, written.lower())
) | {"NODE_USE_ENV_PROXY"}
"""The variables by which programs are told of their proxy."""
_BENEATH: Final = "*."


def read_authority(text: str) -> WebUrl:
    """Take `host:port` apart, as strictly as a URL.

    Raises:
        EgressRefused: It is none, or names no port.

    """
    if not _AUTHORITY.fullmatch(text):
        raise EgressRefused("This is no HOST:PORT.", detail="not a host with a port")
    return read_url(f"https://{text}/")


@value
class Destination:
    """One port of one host, or of every host beneath a domain."""

    host: str
    """In lower case; an IPv6 address without brackets, in its shortest form."""
    port: int
    address: IPAddress | None = None
    """The address that `host` is, if it is no name."""
    beneath: bool = False
    """Whether it is every name that ends in `host` and a dot before it, and not `host` itself."""

    @classmethod
    def of(cls, text: str) -> Self:
        """Read `api.example.com:443`, `*.example.com:443`, `10.0.0.7:5432` or `[::1]:8080`.

        Raises:
            ValueError: It is none of these.

        """
        try:
            read = read_authority(text.removeprefix(_BENEATH))
        except EgressRefused as error:
            raise ValueError(_WRONG) from error
        beneath = text.startswith(_BENEATH)
        if beneath and read.address is not None:
            raise ValueError(_WRONG)
        if beneath and "." not in read.host:
            raise ValueError(f"`{text}` is nearly everything; name the domain you need")
        return cls(host=read.host, port=read.port, address=read.address, beneath=beneath)

    def holds(self, asked: WebUrl) -> bool:
        """Whether it is where `asked` leads, by its words."""
        if self.port != asked.port:
            return False
        return asked.host.endswith(f".{self.host}") if self.beneath else asked.host == self.host

    def __str__(self) -> str:
        """Return it as it is written in the configuration."""
        host = f"[{self.host}]" if ":" in self.host else self.host
        return f"{_BENEATH if self.beneath else ''}{host}:{self.port}"


@value
class Reach:
    """The destinations of one server. Without any there is no network."""

    destinations: tuple[Destination, ...]

    def require(self, asked: WebUrl) -> None:
        """Judge a destination by its words, before anybody is asked what they mean.

        Raises:
            EgressRefused: It is not listed.

        """
        if not any(listed.holds(asked) for listed in self.destinations):
            raise EgressRefused("This destination is not listed.", detail="it is not listed")

    def admit(self, asked: WebUrl, addresses: Sequence[IPAddress]) -> None:
        """Judge a listed destination with all the addresses that it has.

        Whoever runs a name's zone says where it leads. So one that is not public is reached only
        if it is itself listed, with this port; and if one may not be reached, none of them is.

        Raises:
            EgressRefused: There is one.

        """
        listed = {(one.address, one.port) for one in self.destinations}
        for address in addresses:
            if not is_public(address) and (address, asked.port) not in listed:
                raise EgressRefused(
                    "This destination is not public.",
                    detail="it is at an address that is not public",
                )


def addresses_of(texts: Sequence[str]) -> tuple[IPAddress, ...]:
    """Return what a resolver has said, as addresses.

    Raises:
        OSError: It has said nothing that is one.

    """
    try:
        found = tuple(map(ip_address, texts))
    except ValueError as error:
        raise OSError("no address") from error
    if not found:
        raise OSError("no address")
    return found
