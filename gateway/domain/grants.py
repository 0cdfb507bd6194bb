"""What a person lets a client do, and what that turns into: codes, refresh tokens, consents.

Everything secret stands here as its SHA-256 in hex: it holds 256 random bits, so there is nothing
to guess, and a copy of the database opens nothing.
"""

from dataclasses import field
from enum import StrEnum

from gateway.domain._value import value


@value
class AuthorizationRequest:
    """A validated request of the authorization endpoint (RFC 6749 section 4.1.1, RFC 8707)."""

    client_id: str
    redirect_uri: str
    endpoint: str
    """The one resource it is for, as an endpoint path: `/mcp/mail`."""
    scopes: frozenset[str]
    state: str | None = field(default=None, repr=False)
    code_challenge: str
    """S256 (RFC 7636 section 4.2)."""
    bound_to: str = ""
    """The thumbprint of the key whose holder alone may redeem the code (RFC 9449 section 10)."""


ASSERTED = "asserted-"
"""Begins the id of a grant that an identity provider's assertion made, without the person."""


@value
class Grant:
    """What one person granted one client: the root of a family of tokens (RFC 9700 section 4.14).

    Revoked, every token of the family is worth nothing, also one that has not expired.
    """

    id: str
    user_id: str
    client_id: str
    endpoint: str
    scopes: frozenset[str]
    created_at: float
    expires_at: float
    """However often it is refreshed."""
    revoked_at: float | None = None
    reason: str = ""


@value
class AuthorizationCode:
    """A code that was given out once (RFC 6749 section 4.1.2)."""

    code_hash: str
    grant_id: str
    client_id: str
    redirect_uri: str
    code_challenge: str
    expires_at: float
    used_at: float | None = None
    bound_to: str = ""
    """See `AuthorizationRequest`."""
    proven_at: float = 0.0
    """When its person last showed who they are, in seconds since the epoch; 0: nobody knows."""


@value
class RefreshToken:
    """One link of a family's chain; only the last is unused."""

    token_hash: str
    grant_id: str
    client_id: str
    parent_hash: str | None
    issued_at: float
    expires_at: float
    """Seconds since the epoch, moved ahead with every rotation up to the grant's own."""
    used_at: float | None = None
    successor: str = field(default="", repr=False)
    """The next token, sealed, for clients that lost the answer."""
    generation: int = 0
    """How many tokens of the family came before it."""
    bound_to: str = ""
    """The thumbprint of the key whose holder alone may use it (RFC 9449 section 5)."""
    again_at: float | None = None
    """When its successor was first given again to somebody who came too late for a race."""
    lost_at: float | None = None
    """When an answer with its successor was last made for a client that had gone by then."""


class DeviceStatus(StrEnum):
    """Where a device grant stands (RFC 8628 section 3.5)."""

    PENDING = "pending"
    APPROVED = "approved"
    DENIED = "denied"
    REDEEMED = "redeemed"


@value
class DeviceRequest:
    """A device that waits for a person with a browser (RFC 8628)."""

    device_hash: str
    user_code: str
    """As the person types it, without the hyphen; short-lived, and guesses are counted."""
    client_id: str
    endpoint: str
    scopes: frozenset[str]
    expires_at: float
    interval_s: int
    polled_at: float = 0.0
    status: DeviceStatus = DeviceStatus.PENDING
    grant_id: str = ""


@value
class Consent:
    """A person's remembered yes to one client, for one endpoint and redirect URI."""

    user_id: str
    client_id: str
    endpoint: str
    redirect_uri: str
    scopes: frozenset[str]
    given_at: float


@value
class BrowserSession:
    """A signed-in browser. The cookie's text is nowhere; `id_hash` is its SHA-256."""

    id_hash: str
    user_id: str
    created_at: float
    expires_at: float
    source_ip: str
    user_agent: str
    proven_at: float = 0.0
    """When the person last showed who they are, in seconds since the epoch; 0: nobody knows."""


@value
class Transaction:
    """A sign-in under way, bound to the browser that began it (RFC 9700 section 4.7)."""

    id: str
    browser_hash: str
    """SHA-256 of the cookie that only this browser has."""
    purpose: str
    """`authorize`, `device`, `connect` or `account`: what follows once the person is known."""
    request: AuthorizationRequest | None = None
    detail: str = ""
    """What else the purpose needs: a device's user code, an upstream server's name."""
    created_at: float
    expires_at: float
    user_id: str = ""
    """Who signed in, once they have."""
    provider: str = ""
    """The identity provider that the browser was sent to."""
    secrets: str = field(default="", repr=False)
    """Sealed: state, nonce and verifier of the leg to the identity provider."""
