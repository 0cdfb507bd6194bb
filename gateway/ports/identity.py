"""The seams of everything that knows who somebody is: people, clients, what they grant.

These ports are synchronous. What reads from memory says so and never waits; everything else waits
for the disk and is called from a worker thread. Every method is one transaction, durable on return
and seen by other processes on the same database within a second.
"""

from collections.abc import Sequence
from typing import Protocol

from gateway.domain.grants import (
    AuthorizationCode,
    BrowserSession,
    Consent,
    DeviceRequest,
    DeviceStatus,
    Grant,
    RefreshToken,
    Transaction,
)
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


class BrowserStore(Protocol):
    """Signed-in browsers, sign-ins under way, and what people consented to."""

    def begin(self, transaction: Transaction) -> None: ...

    def transaction(self, transaction_id: str, *, now: float) -> Transaction | None:
        """Return a transaction that is neither finished nor expired."""
        ...

    def update(self, transaction: Transaction) -> bool:
        """Store what changed of an unfinished transaction; false if it is finished.

        Its browser, its purpose and its end never change.
        """
        ...

    def finish(self, transaction_id: str, *, now: float) -> bool:
        """Use it up: true for exactly one caller."""
        ...

    def open_session(self, session: BrowserSession) -> None:
        """Store a signed-in browser; of a person with too many the oldest ends.

        Raises:
            LookupError: There is no such person.

        """
        ...

    def session(self, id_hash: str, *, now: float) -> BrowserSession | None:
        """Return a session that is not expired, of a person who is not disabled."""
        ...

    def sessions(self, user_id: str | None = None) -> Sequence[BrowserSession]:
        """Return sessions that are not expired, the newest first."""
        ...

    def end_session(self, id_hash: str) -> bool: ...

    def end_sessions(self, user_id: str) -> int: ...

    def consents(self, user_id: str | None = None) -> Sequence[Consent]: ...

    def consent(self, consent: Consent) -> None:
        """Remember it; the scopes of an earlier one for the same four are replaced.

        Raises:
            LookupError: There is no such person.

        """
        ...

    def withdraw(self, user_id: str, client_id: str, *, at: float) -> int:
        """Forget every consent of theirs to the client, and revoke its grants.

        Returns how many consents and grants those were.
        """
        ...


class GrantStore(Protocol):
    """Codes, refresh tokens, device requests, and what was revoked."""

    def issue_code(self, grant: Grant, code: AuthorizationCode) -> None: ...

    def code(self, code_hash: str) -> AuthorizationCode | None: ...

    def redeem_code(self, code_hash: str, first: RefreshToken | None, *, at: float) -> bool:
        """Use the code up and begin its family's chain with `first`: true for exactly one caller.

        False also if the code's grant was revoked meanwhile, or one of the two has expired.
        Families of the same person, endpoint and client that are in `doubt` end with it.
        """
        ...

    def begin_family(self, grant: Grant, first: RefreshToken | None) -> None:
        """Store a grant that no code led to."""
        ...

    def grant(self, grant_id: str) -> Grant | None: ...

    def grants(
        self, *, user_id: str | None = None, client_id: str | None = None
    ) -> Sequence[Grant]:
        """Return what is neither revoked nor expired by the caller's clock; newest first."""
        ...

    def withdrawn(self, user_id: str, client_id: str) -> bool:
        """Whether this person granted the client something, and all that is kept of it was revoked."""
        ...

    def refresh_token(self, token_hash: str) -> RefreshToken | None: ...

    def rotate(self, token_hash: str, successor: RefreshToken, *, sealed: str, at: float) -> bool:
        """Use a token up, keep `sealed` beside it and store its successor: true for one caller.

        False also if its grant was revoked meanwhile, or one of the two has expired.
        """
        ...

    def newest_generation(self, grant_id: str) -> int:
        """Return which generation the family's last token is of."""
        ...

    def prolong(self, token_hash: str, *, until: float, at: float) -> bool:
        """Let an unused token wait until then; false if it is used, over or of a revoked grant."""
        ...

    def note_again(self, token_hash: str, *, at: float) -> None:
        """Note that the successor of a used token was given again; the first time stays."""
        ...

    def note_lost(self, token_hash: str, *, at: float) -> None:
        """Note that the answer with a used token's successor could be given to nobody."""
        ...

    def doubt(self, grant_id: str, *, at: float) -> None:
        """Note that somebody was refused who had a token of the family; the first time stays."""
        ...

    def revoke_grant(self, grant_id: str, reason: str, *, at: float) -> bool:
        """Revoke a family; false if it was revoked already."""
        ...

    def revoke_token(self, token_id: str, *, until: float) -> None:
        """Revoke one access token that belongs to no family; remembered until it expires."""
        ...

    def is_revoked(self, grant_id: str, token_id: str) -> bool:
        """Whether the token or its family was revoked. From memory."""
        ...

    def first_use(self, issuer: str, assertion_id: str, *, until: float) -> bool:
        """Note an assertion's `jti`: true the first time (RFC 7523 section 3)."""
        ...

    def add_device(self, request: DeviceRequest) -> None:
        """Store a device that waits.

        Raises:
            ValueError: Another one has the user code.

        """
        ...

    def device(self, device_hash: str) -> DeviceRequest | None: ...

    def device_of(self, user_code: str, *, now: float) -> DeviceRequest | None:
        """Return the pending request that a person names by its user code."""
        ...

    def poll_device(self, device_hash: str, *, at: float, interval_s: int) -> None: ...

    def answer_device(
        self, device_hash: str, status: DeviceStatus, grant: Grant | None, *, now: float
    ) -> bool:
        """Answer a pending request; an approval stores its grant. True for exactly one caller.

        Raises:
            ValueError: A grant comes with anything but an approval, or an approval without one.

        """
        ...

    def redeem_device(self, device_hash: str, first: RefreshToken | None, *, at: float) -> bool:
        """Use an approved request up: true for exactly one caller.

        False also if its grant was revoked meanwhile, or one of the two has expired. Families in
        `doubt` end as with a code.
        """
        ...

    def forget_expired(self, *, now: float) -> int:
        """Delete what is past its time and no longer needed as evidence."""
        ...
