"""Who is at the other end of a connection, also behind proxies that the operator named."""

import ipaddress
from collections.abc import Callable, Iterable
from typing import Final

from starlette.types import Scope

Network = ipaddress.IPv4Network | ipaddress.IPv6Network

_MOST_HOPS: Final = 32
"""Proxies behind each other that are looked through."""


def client_address(trusted_proxies: Iterable[str]) -> Callable[[Scope], str]:
    """Return what tells a request's source address.

    `X-Forwarded-For` counts only where the peer is one of `trusted_proxies`; then it is read from
    the right, and the first address that is no trusted proxy is the client's. What stands to the
    left of it anybody could have written. Behind more proxies than stand anywhere behind each other it
    is nobody's but the peer's.
    """
    networks: tuple[Network, ...] = tuple(map(ipaddress.ip_network, trusted_proxies))

    def trusted(address: str) -> bool:
        try:
            ip = ipaddress.ip_address(address)
        except ValueError:
            return False
        return any(ip in network for network in networks)

    def address(scope: Scope) -> str:
        client = scope.get("client")
        peer: str = client[0] if client else ""
        if not networks or not trusted(peer):
            return peer
        for hop in reversed(_hops(scope)):
            if not trusted(hop):
                return hop
        return peer

    return address


def _hops(scope: Scope) -> list[str]:
    lines = [content for name, content in scope["headers"] if name == b"x-forwarded-for"]
    hops = b",".join(lines).decode("latin-1").rsplit(",", _MOST_HOPS)[-_MOST_HOPS:]
    return [hop.strip() for hop in hops if hop.strip()]
