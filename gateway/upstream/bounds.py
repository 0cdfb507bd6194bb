"""Where somebody else's word takes us, and where it does not: no further than the operator lets us go."""

from collections.abc import Sequence
from dataclasses import field
from ipaddress import ip_network
from typing import Self

from gateway.domain._value import value
from gateway.errors import EgressRefused
from gateway.upstream.addresses import IPAddress, IPNetwork, is_public
from gateway.upstream.resolver import Resolver, SystemResolver
from gateway.upstream.urls import WebUrl, read_url

_HTTPS_PORT = 443
_FIRST_UNPRIVILEGED_PORT = 1024


@value
class EgressPolicy:
    """Where the gateway goes on somebody else's word: to public addresses, over https, on port 443
    or an unprivileged one; and to the networks that the operator allows, as they like.
    """

    allow: tuple[IPNetwork, ...] = ()
    """Reached whether public or not, on any port, also over plain http."""

    @classmethod
    def of(cls, networks: Sequence[str]) -> Self:
        """Allow these networks, written as `10.0.0.0/8` or `::1`."""
        return cls(allow=tuple(map(ip_network, networks)))

    def admit(self, url: WebUrl, addresses: Sequence[IPAddress]) -> None:
        """Judge a URL with all the addresses that its host has.

        One that may not be reached rules out all: whoever mixes them in is trying something.

        Raises:
            EgressRefused: There is one.

        """
        for address in addresses:
            if any(address in network for network in self.allow):
                continue
            if not is_public(address):
                raise _refused(f"{url.host} is at an address that is not public")
            if url.scheme != "https":
                raise _refused(f"{url.host} is not asked for over https")
            if url.port != _HTTPS_PORT and url.port < _FIRST_UNPRIVILEGED_PORT:
                # Behind such a port is no web server; the request would be noise in its protocol.
                raise _refused(f"port {url.port} is another service's")


@value
class Bounds:
    """What a server that somebody registered is held to, at each connection that is made to it."""

    policy: EgressPolicy
    resolve: Resolver = field(default_factory=SystemResolver, repr=False, compare=False)

    def admit(self, text: str) -> WebUrl:
        """Return the URL of such a server, if nothing that it says itself stands against it.

        Raises:
            EgressRefused: It is no plain URL, or names an address that may not be reached.

        """
        url = read_url(text)
        if url.address is not None:
            self.policy.admit(url, (url.address,))
        return url


def _refused(detail: str) -> EgressRefused:
    unlisted = f"{detail}, and `egress.allow` does not list its address"
    return EgressRefused("This URL leads where the gateway does not go.", detail=unlisted)
