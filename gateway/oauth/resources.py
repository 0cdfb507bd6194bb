"""What access tokens are made for: the gateway's endpoints as resource URIs, and their scopes."""

import re
from collections.abc import Iterable, Mapping, Sequence
from typing import Self
from urllib.parse import urlsplit

from gateway.domain._value import value
from gateway.domain.calls import AGGREGATE
from gateway.domain.identity import Client, ClientKind
from gateway.errors import ConfigError
from gateway.oauth.errors import ErrorCode, OAuthError

ADMIN_API = "/api/v1"
"""What people administer the gateway through."""

_RELAY_SCOPES = ("tools:list", "tools:call", "tools:write", "prompts", "resources")
"""A relay has none of the gateway's own tools, so nothing there needs the scopes for them."""

_AGGREGATE_SCOPES = (*_RELAY_SCOPES, "code:run", "servers:manage")

_ADMIN_SCOPES = ("admin",)

_WHEN_NEEDED = frozenset({"tools:write", "code:run", "servers:manage"})
"""What changes something: asked for once an operation needs it."""

SCOPES = (*_AGGREGATE_SCOPES, *_ADMIN_SCOPES)
"""Every scope there is, in the order in which they are listed."""

_OF_IDENTITY = frozenset({"offline_access", "openid", "profile", "email"})
"""OpenID Connect Core sections 5.4 and 11. Some clients ask for them unasked; nothing here needs one."""

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
        endpoints = (AGGREGATE, *(f"{AGGREGATE}/{name}" for name in names), ADMIN_API)
        return cls(public_url=public_url, uris={path: public_url + path for path in endpoints})

    def endpoint_of(self, uri: str) -> str | None:
        """Return the endpoint that `uri` names, or nothing.

        Scheme and host may be in upper case (RFC 3986 section 6.2.2.1); the path is exact.
        """
        length = len(self.public_url)
        if not uri.isascii() or uri[:length].lower() != self.public_url:
            return None
        return uri[length:] if uri[length:] in self.uris else None

    def asked_for(self, uri: str) -> str | None:
        """Return the endpoint that a request's `resource` names, or nothing.

        ChatGPT and others add the slash of a folder to what our document says, and to each request
        of theirs. What a token or an assertion is for is spelt one way: `endpoint_of`.
        """
        return self.endpoint_of(uri.removesuffix("/"))

    @staticmethod
    def scopes_of(endpoint: str) -> tuple[str, ...]:
        """Return every scope that some operation of `endpoint` needs."""
        return {AGGREGATE: _AGGREGATE_SCOPES, ADMIN_API: _ADMIN_SCOPES}.get(endpoint, _RELAY_SCOPES)

    @classmethod
    def first_scopes_of(cls, endpoint: str) -> tuple[str, ...]:
        """Return what a client is told to ask for at first: all that is needed to look and read.

        The rest is a step-up (MCP 2026-07-28, authorization, scope minimization): nobody has to let
        a client write in order to let it read.
        """
        return tuple(scope for scope in cls.scopes_of(endpoint) if scope not in _WHEN_NEEDED)

    def open_to(self, client: Client, endpoint: str) -> bool:
        """Whether `client` may get tokens for `endpoint`.

        Nobody vouches for a client that registered itself, so none can be made an administrator's.
        """
        return (
            endpoint in self.uris
            and client.may_use(endpoint)
            and (endpoint != ADMIN_API or client.kind is ClientKind.REGISTERED)
        )

    def requested(self, uris: Sequence[str], client: Client) -> str:
        """Return the one endpoint that a request's `resource` parameters name.

        A request without any is for the only resource of a registered client, or else for the
        aggregate: clients that know nothing of RFC 8707 use that.

        Raises:
            OAuthError: `invalid_target` (RFC 8707 section 2): several, or one that does not exist
                or is not the client's.

        """
        if len(uris) > 1:
            raise OAuthError(ErrorCode.INVALID_TARGET, "a token is for one resource")
        if uris:
            endpoint = self.asked_for(uris[0])
        elif client.kind is ClientKind.REGISTERED and len(client.resources) == 1:
            (endpoint,) = client.resources
        else:
            endpoint = AGGREGATE
        if endpoint is None or not self.open_to(client, endpoint):
            raise OAuthError(ErrorCode.INVALID_TARGET, "no such resource for this client")
        return endpoint

    def granted(self, asked: str | None, client: Client, endpoint: str) -> frozenset[str]:
        """Return what of the scopes `asked` for can be had at `endpoint`; without a wish, all.

        What exists but is not the client's or the endpoint's is left out, and the answer says so
        (RFC 6749 section 3.3): a client of MCP asks for all that the endpoint's challenge lists.

        Raises:
            OAuthError: `invalid_scope`: there is no such scope, or nothing is left.

        """
        wanted = frozenset(SCOPES) if asked is None else self._wanted(asked, endpoint)
        possible = client.ceiling(wanted & set(self.scopes_of(endpoint)))
        if not possible:
            raise OAuthError(ErrorCode.INVALID_SCOPE, "the client may have none of these scopes")
        return possible

    def _wanted(self, asked: str, endpoint: str) -> frozenset[str]:
        """Return the scopes that `asked` names; of what names those of identity alone, the first ones."""
        # Claude writes a space before the first.
        named = frozenset(asked.strip(" ").split(" ")) - _OF_IDENTITY
        if not named <= set(SCOPES):
            listed = ", ".join(self.scopes_of(endpoint))
            raise OAuthError(ErrorCode.INVALID_SCOPE, f"no such scope here; ask for {listed}")
        return named or frozenset(self.first_scopes_of(endpoint))


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
