"""The seams of signing in: browsers, and what people grant there.

Synchronous, as the stores of `gateway.ports.identity` are: every method is one transaction.
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
