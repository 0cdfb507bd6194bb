"""What is kept sealed: signing keys, data keys, connections to upstream servers."""

from dataclasses import field
from enum import StrEnum

from gateway.domain._value import value


class KeyState(StrEnum):
    """A signing key's life."""

    NEXT = "next"
    """Published, not used yet: everybody who caches our keys has it before it signs."""
    ACTIVE = "active"
    RETIRED = "retired"
    """Signs no more; verifies until the last token that it signed has expired."""


@value
class SealedKey:
    """A signing key pair at rest."""

    kid: str
    """RFC 7638 thumbprint."""
    state: KeyState
    sealed: str = field(repr=False)
    """The private key, PKCS 8, sealed for `signing_keys:{kid}:sealed`."""
    created_at: float
    """Seconds since the epoch; published from then on."""
    activated_at: float | None = None
    retired_at: float | None = None


@value
class DataKey:
    """A key that seals, wrapped by the key-encryption key, which is not in the database."""

    id: str
    wrapped: str = field(repr=False)
    kek_id: str
    """Names the key-encryption key that wraps it; tells nothing about it."""
    created_at: float


@value
class StoredConnection:
    """One person's connection to one upstream server."""

    user_id: str
    server: str
    issuer: str
    """The authorization server that gave the tokens; they are shown to nobody else."""
    sealed: str = field(repr=False)
    """Access and refresh token, sealed for `connections:{user_id}:{server}`."""
    scopes: tuple[str, ...]
    expires_at: float | None
    """Of the access token; `None` if nobody said."""
    version: int
    """Counts replacements, so that two processes never refresh with the same token."""
    connected_at: float
    refreshed_at: float | None = None
