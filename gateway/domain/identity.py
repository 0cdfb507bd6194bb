"""Who is asking: credentials before they are checked, principals after."""

from dataclasses import field

from gateway.domain._value import value


@value
class BearerToken:
    """An access token as it came off the wire, unverified (RFC 6750 section 2.1)."""

    text: str = field(repr=False)


Credential = BearerToken | None
"""What a request carried to prove who sends it; `None` is nothing at all."""


@value
class Principal:
    """A verified subject, and the client acting for it (RFC 8693 section 4.1).

    Made only by an `Authenticator`, for one endpoint.
    """

    issuer: str
    subject: str
    client_id: str
    client_name: str
    groups: frozenset[str]
    scopes: frozenset[str]
    token_id: str
    """The token's `jti` (RFC 7519 section 4.1.7); never the token."""
    expires_at: float
    """Seconds since the epoch."""
    trusted_host: bool = False
    """Whether an administrator lets this client declare its user's task."""

    @property
    def key(self) -> str:
        """Names the grant: everything that belongs to this principal is filed under it."""
        return f"{self.issuer}|{self.subject}|{self.client_id}"


@value
class Client:
    """An OAuth client that an administrator registered (RFC 6749 section 2)."""

    id: str
    name: str
    secret_hash: str = field(repr=False)
    """`sha256:` of a secret of 256 random bits; such a one needs no slow hash."""
    grants: tuple[str, ...] = ("client_credentials",)
    resources: frozenset[str]
    """Endpoint paths it may get tokens for: `/mcp/mail`."""
    scopes: frozenset[str]
    """The most that its tokens may carry."""
    groups: frozenset[str] = frozenset()
    trusted_host: bool = False
    """Whether it may declare its user's task."""
    created_at: float
    created_by: str
