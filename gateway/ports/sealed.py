"""The seams of what is kept sealed: keys, and people's connections to upstream servers.

Synchronous, as the stores of `gateway.ports.identity` are.
"""

from collections.abc import Sequence
from typing import Protocol

from gateway.domain.secrets import DataKey, SealedKey, StoredConnection


class SigningKeyStore(Protocol):
    """The key pairs that sign access tokens, private halves sealed."""

    def keys(self) -> Sequence[SealedKey]:
        """Return every key that is not forgotten, newest first."""
        ...

    def add_key(self, key: SealedKey) -> bool:
        """Store a new key; false if another process has just stored one of that state."""
        ...

    def activate_key(self, kid: str, *, at: float) -> bool:
        """Make the next key the active one and retire the active one; true for one caller."""
        ...

    def forget_keys(self, *, retired_before: float) -> int: ...


class DataKeyStore(Protocol):
    """The keys that secrets at rest are sealed with, each wrapped by the key-encryption key."""

    def data_keys(self) -> Sequence[DataKey]:
        """Return every data key, newest first."""
        ...

    def add_data_key(self, key: DataKey) -> None:
        """Store a new key.

        Raises:
            LookupError: The keys there are wrapped by another key-encryption key.

        """
        ...

    def rewrap(self, keys: Sequence[DataKey]) -> None:
        """Replace the wrapping of these keys, all or none.

        Raises:
            LookupError: They are not all the keys there are.

        """
        ...


class ConnectionStore(Protocol):
    """People's tokens for upstream servers, sealed, and our registrations there."""

    def connection(self, user_id: str, server: str) -> StoredConnection | None: ...

    def connections(self, user_id: str | None = None) -> Sequence[StoredConnection]: ...

    def connect(self, connection: StoredConnection) -> None:
        """Store a new connection in place of an earlier one of the same person and server.

        It gets a version that the earlier one never had, and nobody's lease.

        Raises:
            LookupError: There is no such person.

        """
        ...

    def disconnect(self, user_id: str, server: str, *, version: int | None = None) -> bool:
        """Forget a connection; with `version`, only if it is still that one. False: there was none."""
        ...

    def lease(self, user_id: str, server: str, *, by: str, now: float, until: float) -> bool:
        """Take the right to refresh: true for one process at a time, until it lets go or expires."""
        ...

    def replace(self, connection: StoredConnection, *, by: str) -> bool:
        """Store refreshed tokens over `connection.version - 1` and let the lease go.

        False, and nothing is stored, if the lease or the version is another's by now.
        """
        ...

    def release(self, user_id: str, server: str, *, by: str) -> None: ...

    def registration(self, server: str, issuer: str) -> str:
        """Return the sealed client registration that `issuer` gave us for `server`; or nothing."""
        ...

    def register(self, server: str, issuer: str, sealed: str) -> None: ...
