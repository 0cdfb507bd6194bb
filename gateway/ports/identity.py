"""The seams of everything that knows who somebody is: people and clients.

These ports are synchronous. What reads from memory says so and never waits; everything else waits
for the disk and is called from a worker thread. Every method is one transaction, durable on return
and seen by other processes on the same database within a second.
"""

from collections.abc import Sequence
from typing import Protocol

from gateway.domain.identity import Client, User


class ClientStore(Protocol):
    """OAuth clients, however they came to be known. Reading is from memory."""

    def find(self, client_id: str) -> Client | None: ...

    def all(self) -> Sequence[Client]:
        """Return every client, by name."""
        ...

    def add(self, client: Client) -> None:
        """Store a new client.

        Raises:
            ValueError: The id is taken, or the name by another `REGISTERED` one.

        """
        ...

    def refresh(self, client: Client) -> None:
        """Store what a `DOCUMENT` says now, new or in place of what it said before.

        Raises:
            ValueError: The id is that of a client of another kind.

        """
        ...

    def remove(self, client_id: str) -> Client | None:
        """Forget a client and all consents to it, revoke its grants; `None` if there is none.

        What it registered is from then on `created_by` whoever registered it.
        """
        ...

    def remove_unused(self, before: float) -> int:
        """Forget `DYNAMIC` and `DOCUMENT` clients made before then that nobody lets in.

        They have neither a live grant nor a remembered consent.
        """
        ...


class UserStore(Protocol):
    """People. `find`, `by_subject`, `by_os_user` and `all` read from memory."""

    def find(self, user_id: str) -> User | None: ...

    def by_subject(self, issuer: str, subject: str) -> User | None: ...

    def by_os_user(self, os_user: str) -> User | None: ...

    def all(self) -> Sequence[User]:
        """Return everybody, by name."""
        ...

    def add(
        self, user: User, *, link_hash: str = "", link_until: float = 0, first: bool = False
    ) -> None:
        """Store a new person, and the one-time link with which they choose a password.

        Raises:
            ValueError: The subject or the operating system's user is taken, or they would be the
                `first` and are not.

        """
        ...

    def signed_in(self, user: User) -> User:
        """Return the person of `user`'s issuer and subject, made now if they are new.

        The name and the groups become `user`'s: the provider's word of today. Whoever is disabled
        stays disabled.
        """
        ...

    def change(
        self,
        user_id: str,
        *,
        groups: frozenset[str] | None = None,
        os_user: str | None = None,
        disabled: bool | None = None,
        at: float,
    ) -> User:
        """Change what is given. Disabling also ends sessions and revokes every grant.

        Raises:
            LookupError: There is no such person.
            ValueError: The operating system's user is somebody else's.

        """
        ...

    def remove(self, user_id: str, *, at: float) -> User:
        """Forget a person, their sessions, consents and connections, and revoke their grants.

        Raises:
            LookupError: There is no such person.

        """
        ...

    def password_of(self, user_id: str) -> str:
        """Return the Argon2id hash (PHC text) of their password; empty if there is none."""
        ...

    def rehash(self, user_id: str, old: str, new: str) -> bool:
        """Replace the password hash `old` with a costlier one of the same password.

        False if it is `old` no longer. Sessions stay.
        """
        ...

    def add_link(self, user_id: str, link_hash: str, *, until: float) -> None:
        """Let whoever has the link choose a password for this person, once. Older links end.

        Raises:
            LookupError: There is no such person.

        """
        ...

    def link(self, link_hash: str, *, now: float) -> User | None:
        """Return whose link this is, while it is unused, in time, and they are not disabled."""
        ...

    def redeem_link(self, link_hash: str, password: str, *, now: float) -> User | None:
        """Set the password hash and use the link up; sessions opened before end. `None`: too late."""
        ...
