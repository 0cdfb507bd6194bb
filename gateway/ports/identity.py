"""The seams of everything that knows who somebody is: people, clients, grants, keys, secrets.

These ports are synchronous. What reads from memory says so and never waits; everything else waits
for the disk and is called from a worker thread. Every method is one transaction, durable on return
and seen by other processes on the same database within a second.
"""

from collections.abc import Mapping, Sequence
from typing import Any, Protocol

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
from gateway.domain.secrets import DataKey, SealedKey, StoredConnection


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
        """Forget a client and all consents to it, revoke its grants; `None` if there is none."""
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

    def add(self, user: User, *, link_hash: str = "", link_until: float = 0) -> None:
        """Store a new person, and the one-time link with which they choose a password.

        Raises:
            ValueError: The subject or the operating system's user is taken.

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
        """Store a signed-in browser.

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

    def refresh_token(self, token_hash: str) -> RefreshToken | None: ...

    def rotate(self, token_hash: str, successor: RefreshToken, *, sealed: str, at: float) -> bool:
        """Use a token up, keep `sealed` beside it and store its successor: true for one caller.

        False also if its grant was revoked meanwhile, or one of the two has expired.
        """
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

        False also if its grant was revoked meanwhile, or one of the two has expired.
        """
        ...

    def forget_expired(self, *, now: float) -> int:
        """Delete what is past its time and no longer needed as evidence."""
        ...


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


class Sealer(Protocol):
    """Secrets at rest: authenticated, and bound to the row they stand in."""

    def seal(self, plain: bytes, row: str) -> str:
        """Return `plain` sealed for `row` (`table:key:column`), as ASCII text."""
        ...

    def open(self, sealed: str, row: str) -> bytes:
        """Return what `seal` was given.

        Raises:
            Unsealable: It was sealed for another row, by another key, or is damaged.

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


class Fetched(Protocol):
    """An answer to something that we fetched on somebody's word."""

    @property
    def status(self) -> int: ...

    @property
    def headers(self) -> Mapping[str, str]:
        """Lower-case names."""
        ...

    @property
    def body(self) -> bytes: ...

    def json(self) -> Mapping[str, Any]:
        """Return the body as a JSON object, read strictly.

        Raises:
            UpstreamFailed: It is not one.

        """
        ...


class Fetcher(Protocol):
    """The one way out for URLs that somebody else names: metadata, keys, token endpoints.

    Connects to public addresses only, unless the operator allows others, and only to the address
    that was checked; follows no redirect; bounded in size and time.
    """

    async def get(self, url: str, *, headers: Mapping[str, str] | None = None) -> Fetched:
        """Return the answer, whatever its status.

        Raises:
            EgressRefused: The URL or an address it resolves to is not allowed.
            UpstreamFailed: No whole answer in time.

        """
        ...

    async def post(
        self,
        url: str,
        *,
        form: Mapping[str, str] | None = None,
        json: Mapping[str, Any] | None = None,
        headers: Mapping[str, str] | None = None,
    ) -> Fetched:
        """Send a form or a JSON document once, and return the answer, whatever its status.

        Raises:
            EgressRefused: The URL or an address it resolves to is not allowed.
            UpstreamFailed: No whole answer in time.

        """
        ...


class UpstreamCredentials(Protocol):
    """What the gateway shows to upstream servers in a person's name: never the client's token."""

    async def headers(
        self, server: str, user_id: str, principal_key: str
    ) -> Sequence[tuple[str, str]]:
        """Return the header fields to send to `server` for this person; empty where none is wanted.

        Raises:
            CredentialRequired: The person has to connect first; `url` is where.
            UpstreamFailed: Their authorization server gave no usable answer.

        """
        ...

    async def rejected(
        self,
        server: str,
        user_id: str,
        *,
        shown: Sequence[tuple[str, str]],
        status: int,
        challenge: str,
    ) -> Sequence[tuple[str, str]]:
        """Return other header fields than `shown`, to try once, after the upstream refused those.

        `status` is 401 or 403, `challenge` its `WWW-Authenticate`.

        Raises:
            CredentialRequired: There are none; `url` is where the person can get better ones.
            UpstreamFailed: Their authorization server gave no usable answer.

        """
        ...
