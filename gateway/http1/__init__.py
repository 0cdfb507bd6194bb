"""HTTP/1.1 as a gateway speaks it (RFC 9112): read strictly, from servers and from clients alike.

A gateway must not follow redirects, keep cookies, undo compression or ask a proxy of the environment;
what is left is small enough to be read here, and is all that a call has to pay for.
"""

from gateway.http1.asked import Asked, read_asked
from gateway.http1.body import Body, Chunked, Sized, body_asked
from gateway.http1.connection import Connection
from gateway.http1.dialling import AddressInfo, Origin, authorities, dial, system_authorities
from gateway.http1.faults import (
    LATE,
    BadMessage,
    ConnectFailed,
    ConnectTimedOut,
    Disconnected,
    HttpFault,
    NoPlace,
    Overdue,
    Silent,
)
from gateway.http1.head import (
    END_OF_HEAD,
    MOST_HEAD_BYTES,
    Fields,
    Head,
    RawPairs,
    require_fields,
)
from gateway.http1.pool import Pool, Waits, beside
from gateway.http1.requests import common_head, request
from gateway.http1.response import Patience, Response

__all__ = [
    "END_OF_HEAD",
    "LATE",
    "MOST_HEAD_BYTES",
    "AddressInfo",
    "Asked",
    "BadMessage",
    "Body",
    "Chunked",
    "ConnectFailed",
    "ConnectTimedOut",
    "Connection",
    "Disconnected",
    "Fields",
    "Head",
    "HttpFault",
    "NoPlace",
    "Origin",
    "Overdue",
    "Patience",
    "Pool",
    "RawPairs",
    "Response",
    "Silent",
    "Sized",
    "Waits",
    "authorities",
    "beside",
    "body_asked",
    "common_head",
    "dial",
    "read_asked",
    "request",
    "require_fields",
    "system_authorities",
]
