"""Which IP addresses are public: all that no registry sets aside, and that hide no other address.

`ipaddress.is_global` is not enough: it follows the registries of the day on which Python was built,
and looks at no address that is written inside another.
"""

from ipaddress import IPv4Address, IPv4Network, IPv6Address, IPv6Network

IPAddress = IPv4Address | IPv6Address
IPNetwork = IPv4Network | IPv6Network

_SPECIAL_V4 = tuple(
    map(
        IPv4Network,
        (
            "0.0.0.0/8",  # this network (RFC 791)
            "10.0.0.0/8",  # private use (RFC 1918)
            "100.64.0.0/10",  # shared address space (RFC 6598)
            "127.0.0.0/8",  # loopback (RFC 1122)
            "169.254.0.0/16",  # link local, also the metadata services of clouds (RFC 3927)
            "172.16.0.0/12",  # private use (RFC 1918)
            "192.0.0.0/24",  # IETF protocol assignments (RFC 6890)
            "192.0.2.0/24",  # documentation (RFC 5737)
            "192.31.196.0/24",  # AS112 (RFC 7535)
            "192.52.193.0/24",  # AMT (RFC 7450)
            "192.88.99.0/24",  # 6to4 relay anycast (RFC 7526)
            "192.168.0.0/16",  # private use (RFC 1918)
            "192.175.48.0/24",  # AS112 (RFC 7534)
            "198.18.0.0/15",  # benchmarking (RFC 2544)
            "198.51.100.0/24",  # documentation (RFC 5737)
            "203.0.113.0/24",  # documentation (RFC 5737)
            "224.0.0.0/4",  # multicast (RFC 5771)
            "240.0.0.0/4",  # reserved, and the limited broadcast (RFC 1112, RFC 8190)
        ),
    )
)
"""Every entry of the IANA IPv4 Special-Purpose Address Registry, and multicast.

Also those that are globally reachable: none of them is a place where a web server lives.
"""

_GLOBAL_V6 = IPv6Network("2000::/3")
"""All that is assigned for global unicast (RFC 4291 section 2.4). Beyond it lie, among others, the
loopback, the unspecified and the IPv4-compatible addresses, `64:ff9b:1::/48` (RFC 8215), `100::/64`
(RFC 6666), `5f00::/16` (RFC 9602), `fc00::/7`, `fe80::/10`, `fec0::/10` and multicast."""

_SPECIAL_V6 = tuple(
    map(
        IPv6Network,
        (
            "2001::/23",  # IETF protocol assignments, Teredo among them (RFC 2928, RFC 4380)
            "2001:db8::/32",  # documentation (RFC 3849)
            "2002::/16",  # 6to4 (RFC 3056)
            "2620:4f:8000::/48",  # AS112 (RFC 7534)
            "3fff::/20",  # documentation (RFC 9637)
        ),
    )
)
"""Every entry of the IANA IPv6 Special-Purpose Address Registry within global unicast.

Teredo and 6to4 go whole: both are deprecated, and what they embed can be anybody's.
"""

_WRITTEN_AS_V6 = (
    IPv6Network("::ffff:0:0/96"),  # IPv4-mapped (RFC 4291 section 2.5.5.2)
    IPv6Network("64:ff9b::/96"),  # NAT64, for hosts that have IPv6 alone (RFC 6052 section 2.1)
)
"""Prefixes after which an IPv4 address stands, to which the connection goes in the end."""

_ISATAP = frozenset({0x0000_5EFE, 0x0200_5EFE})
"""Upper half of an interface identifier whose lower half is an IPv4 address (RFC 5214 section 6.1)."""

_LOW_32 = 0xFFFF_FFFF


def is_public(address: IPAddress) -> bool:
    """Whether `address`, and the one that it embeds if any, belongs to the public internet."""
    if isinstance(address, IPv4Address):
        return not any(address in network for network in _SPECIAL_V4)
    if address.scope_id is not None:
        return False
    embedded = IPv4Address(int(address) & _LOW_32)
    if any(address in network for network in _WRITTEN_AS_V6):
        return is_public(embedded)
    if int(address) >> 32 & _LOW_32 in _ISATAP and not is_public(embedded):
        return False
    return address in _GLOBAL_V6 and not any(address in network for network in _SPECIAL_V6)
