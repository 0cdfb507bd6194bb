"""Who shares a source address: what a bound on guessing has to count together."""

import ipaddress
from functools import lru_cache


@lru_cache(maxsize=4096)
def network_of(source_ip: str) -> str:
    """Return the network to count `source_ip` under; what is no address stands for itself.

    Whoever has one IPv6 address has its whole /64; a mapped IPv4 address is the IPv4 address.
    """
    try:
        address = ipaddress.ip_address(source_ip)
    except ValueError:
        return source_ip
    if isinstance(address, ipaddress.IPv4Address):
        return str(address)
    if address.ipv4_mapped is not None:
        return str(address.ipv4_mapped)
    return str(ipaddress.IPv6Network((int(address), 64), strict=False))
