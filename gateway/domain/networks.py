"""Who shares a source address: what a bound on guessing has to count together."""

import ipaddress
from functools import lru_cache

_LONGEST = 64
"""Characters of an address, with room for a zone's name; what is longer is not remembered."""


def network_of(source_ip: str) -> str:
    """Return the network to count `source_ip` under; what is no address stands for itself.

    Whoever has one IPv6 address has its whole /64; a mapped IPv4 address is the IPv4 address.
    """
    return _network_of(source_ip) if len(source_ip) <= _LONGEST else source_ip


@lru_cache(maxsize=4096)
def _network_of(source_ip: str) -> str:
    try:
        address = ipaddress.ip_address(source_ip)
    except ValueError:
        return source_ip
    if isinstance(address, ipaddress.IPv4Address):
        return str(address)
    if address.ipv4_mapped is not None:
        return str(address.ipv4_mapped)
    return str(ipaddress.IPv6Network((int(address), 64), strict=False))
