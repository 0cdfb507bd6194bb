"""What an operator says of the credential that one upstream server wants."""

from dataclasses import field
from typing import TypeAlias

from gateway.domain._value import value


@value
class PersonalConnection:
    """Everybody connects for themselves (`kind: oauth`).

    Raises:
        ValueError: A client of ours is named without the authorization server that knows it, or the
            server's name is that of a page of ours.

    """

    server: str
    url: str
    """The upstream's MCP endpoint."""
    scopes: tuple[str, ...] = ()
    """All that is ever asked for; without it, what the upstream's challenges name."""
    issuer: str = ""
    """The one authorization server to accept; without it, the first that the upstream names."""
    client_id: str = ""
    """Our registration at `issuer`; without it we describe or register ourselves."""
    client_secret: str = field(default="", repr=False)
    sends_resource: bool = True
    """Whether the authorization server takes the parameter `resource` (RFC 8707)."""
    is_bound: bool = False
    """Whether tokens are bound to a key of ours, one of each person (RFC 9449)."""

    def __post_init__(self) -> None:
        if self.server == "callback":
            raise ValueError("a server to connect cannot be named 'callback'")
        if self.client_id and not self.issuer:
            # Whoever answers for the upstream could name an authorization server of their own,
            # and would be shown the secret of another (MCP 2026-07-28, authorization server binding).
            raise ValueError(f"the client of {self.server!r} needs the issuer that registered it")


@value
class TokenExchange:
    """A person's identity is traded for a token (`kind: exchange`, RFC 8693)."""

    server: str
    url: str
    """The upstream's MCP endpoint."""
    token_url: str
    client_id: str
    client_secret: str = field(repr=False)
    audience: str = ""
    scopes: tuple[str, ...] = ()
    sends_resource: bool = True
    """Whether the token endpoint takes the parameter `resource`, here `url`."""


Credential: TypeAlias = PersonalConnection | TokenExchange
