"""What access tokens are made for: the gateway's endpoints as resource URIs, and their scopes."""

import re
from collections.abc import Iterable, Mapping
from typing import Self
from urllib.parse import urlsplit

from gateway.domain._value import value
from gateway.errors import ConfigError

AGGREGATE = "/mcp"
"""The endpoint in front of every server."""

SCOPES = (
    "tools:list",
    "tools:call",
    "tools:write",
    "prompts",
    "resources",
    "code:run",
    "servers:manage",
)
"""Every scope there is, in the order in which they are listed."""

_RELAY_SCOPES = tuple(scope for scope in SCOPES if scope not in {"code:run", "servers:manage"})
"""A relay has none of the gateway's own tools, so nothing there needs the scopes for them."""

_SERVER = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]*", re.ASCII)


@value
class Resources:
    """The endpoints of one gateway and their URIs, which derive from its public URL alone."""

    public_url: str
    """Scheme and authority, nothing after; also the issuer (RFC 8414 section 2)."""
    uris: Mapping[str, str]
    """Resource URIs (RFC 8707 section 2) by endpoint path: `/mcp/mail`."""

    @classmethod
    def of(cls, *, public_url: str, servers: Iterable[str]) -> Self:
        """Name the resources of a gateway in front of `servers`.

        Raises:
            ConfigError: `public_url` is more than a lower-case origin, or a server's name would
                not stay one path segment.

        """
        names = tuple(servers)
        problems = [
            f"servers: {name!r} is no name" for name in names if not _SERVER.fullmatch(name)
        ]
        if not _is_origin(public_url):
            problems.append("public_url: must be http(s)://host[:port] in lower case, no path")
        if problems:
            raise ConfigError("resource URIs cannot be derived", problems=problems)
        endpoints = (AGGREGATE, *(f"{AGGREGATE}/{name}" for name in names))
        return cls(public_url=public_url, uris={path: public_url + path for path in endpoints})

    def endpoint_of(self, uri: str) -> str | None:
        """Return the endpoint that `uri` names, or nothing.

        Scheme and host may be in upper case (RFC 3986 section 6.2.2.1); the path is exact.
        """
        length = len(self.public_url)
        if not uri.isascii() or uri[:length].lower() != self.public_url:
            return None
        return uri[length:] if uri[length:] in self.uris else None

    @staticmethod
    def scopes_of(endpoint: str) -> tuple[str, ...]:
        """Return every scope that some operation of `endpoint` needs."""
        return SCOPES if endpoint == AGGREGATE else _RELAY_SCOPES


def _is_origin(url: str) -> bool:
    try:
        parts = urlsplit(url)
        port = parts.port
    except ValueError:
        return False
    # Issuer and audience are compared byte for byte, so one gateway has exactly one spelling.
    host = parts.hostname or ""
    spelled = f"[{host}]" if ":" in host else host
    authority = spelled if port is None else f"{spelled}:{port}"
    return (
        bool(host) and parts.scheme in {"http", "https"} and url == f"{parts.scheme}://{authority}"
    )
