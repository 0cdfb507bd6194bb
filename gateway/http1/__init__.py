"""HTTP/1.1 as a gateway speaks it to servers (RFC 9112): read strictly, one exchange at a time.

A gateway must not follow redirects, keep cookies, undo compression or ask a proxy of the environment;
what is left is small enough to be read here, and is all that a call has to pay for.
"""

from gateway.http1.connection import Connection
from gateway.http1.dialling import AddressInfo, Origin, authorities, dial, system_authorities
from gateway.http1.faults import (
    LATE,
    BadMessage,
    ConnectFailed,
    ConnectTimedOut,
    Disconnected,
    HttpFault,
    Overdue,
    Silent,
)
from gateway.http1.head import Fields
from gateway.http1.pool import Pool, Waits
from gateway.http1.requests import common_head, request
from gateway.http1.response import Patience, Response

__all__ = [
    "LATE",
    "AddressInfo",
    "BadMessage",
    "ConnectFailed",
    "ConnectTimedOut",
    "Connection",
    "Disconnected",
    "Fields",
    "HttpFault",
    "Origin",
    "Overdue",
    "Patience",
    "Pool",
    "Response",
    "Silent",
    "Waits",
    "authorities",
    "common_head",
    "dial",
    "request",
    "system_authorities",
]
