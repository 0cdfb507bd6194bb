"""A connection to one of a host's addresses, in the name that was asked for."""

import asyncio
import functools
import socket
import ssl
from collections.abc import Callable, Sequence
from ipaddress import IPv4Address, IPv6Address
from typing import Any, Final

import aiohappyeyeballs

from gateway.domain._value import value
from gateway.http1.connection import Connection
from gateway.http1.faults import ConnectFailed

AddressInfo = tuple[int, int, int, str, tuple[Any, ...]]
"""Family, type, protocol, canonical name and socket address, as of `socket.getaddrinfo`."""

_FAILURES: Final = (OSError, RuntimeError, ValueError)
"""Of TLS as well; what uvloop says of some sockets; no address at all, and names that cannot be written."""
_NEXT_S: Final = 0.25
"""After which the next address is tried as well (RFC 8305 section 5)."""


@value
class Origin:
    """Where a server is, and whom its certificate has to name."""

    host: str
    port: int
    is_tls: bool


async def dial(
    origin: Origin,
    addresses: Sequence[IPv4Address | IPv6Address],
    *,
    tls: ssl.SSLContext | None = None,
    sockets: Callable[[AddressInfo], socket.socket] | None = None,
) -> Connection:
    """Return a connection to the first of `addresses` that answers; over TLS, to who proves the name.

    Whom `tls` trusts is believed, or else whom the system does. `sockets` makes the socket for an address.

    Raises:
        ConnectFailed: None does.

    """
    loop = asyncio.get_running_loop()
    try:
        made = await aiohappyeyeballs.start_connection(
            [_info(address, origin.port) for address in addresses],
            happy_eyeballs_delay=_NEXT_S,
            interleave=1,
            socket_factory=sockets,
        )
    except _FAILURES as error:
        raise ConnectFailed(type(error).__name__) from error
    connection = Connection()
    try:
        await loop.create_connection(
            lambda: connection,
            sock=made,
            ssl=(tls or system_authorities()) if origin.is_tls else None,
            server_hostname=origin.host if origin.is_tls else None,
        )
    except _FAILURES as error:
        made.close()
        raise ConnectFailed(type(error).__name__) from error
    except BaseException:
        if connection.usable:
            connection.end()
        made.close()
        raise
    return connection


def _info(address: IPv4Address | IPv6Address, port: int) -> AddressInfo:
    family = socket.AF_INET6 if address.version == 6 else socket.AF_INET  # noqa: PLR2004
    return family, socket.SOCK_STREAM, socket.IPPROTO_TCP, "", (str(address), port)


@functools.cache
def system_authorities() -> ssl.SSLContext:
    """Return what trusts the system's authorities, which are read once for the process."""
    return authorities()


def authorities() -> ssl.SSLContext:
    """Return what trusts the system's authorities, to which others may be added, over HTTP/1.1 alone."""
    context = ssl.create_default_context()
    context.set_alpn_protocols(["http/1.1"])
    return context
