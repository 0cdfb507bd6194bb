"""Grants, and what they turn into: codes, refresh tokens, approved devices.

Whatever may happen once is one conditional `UPDATE`: of two that come at once, in one process or in
two, only one changes a row.
"""

from collections.abc import Sequence
from typing import TypeVar

from gateway.domain.grants import (
    AuthorizationCode,
    DeviceRequest,
    DeviceStatus,
    Grant,
    RefreshToken,
)
from gateway.ports import Clock
from gateway.storage.identity.expiry import forget_expired
from gateway.storage.identity.remembered import Columns, Row
from gateway.storage.identity.revocations import Revocations, Revoked, revoked
from gateway.storage.identity.statements import IdentityDatabase, Refused, Statements

T = TypeVar("T")

_GRANTS = Columns(Grant, "grants")
_CODES = Columns(AuthorizationCode, "codes")
_TOKENS = Columns(RefreshToken, "refresh_tokens")
_DEVICES = Columns(DeviceRequest, "devices")

# Each ends with the moment of use, twice: for the end of its own and for that of its grant.
_CODE_ONCE = """
UPDATE codes SET used_at = ? WHERE code_hash = ? AND used_at IS NULL AND expires_at > ?
AND grant_id IN (SELECT id FROM grants WHERE revoked_at IS NULL AND expires_at > ?)
"""
_ROTATE = """
UPDATE refresh_tokens SET used_at = ?, successor = ?
WHERE token_hash = ? AND used_at IS NULL AND expires_at > ?
AND grant_id IN (SELECT id FROM grants WHERE revoked_at IS NULL AND expires_at > ?)
"""
_PROLONG = """
UPDATE refresh_tokens SET expires_at = ?
WHERE token_hash = ? AND expires_at > ? AND used_at IS NULL
AND grant_id IN (SELECT id FROM grants WHERE revoked_at IS NULL AND expires_at > ?)
"""
_DEVICE_ONCE = """
UPDATE devices SET status = 'redeemed'
WHERE device_hash = ? AND status = 'approved' AND expires_at > ?
AND grant_id IN (SELECT id FROM grants WHERE revoked_at IS NULL AND expires_at > ?)
"""

# A client that registers anew at each sign-in is known by its name alone.
_END_DOUBTED = """
UPDATE grants SET revoked_at = :at, reason = 'its person signed in anew'
WHERE revoked_at IS NULL AND doubted_at IS NOT NULL AND EXISTS (
    SELECT 1 FROM grants AS new WHERE new.id = :new AND new.id <> grants.id
    AND new.user_id = grants.user_id AND new.endpoint = grants.endpoint
    AND (
        new.client_id = grants.client_id
        OR (SELECT name FROM clients WHERE id = new.client_id)
            = (SELECT name FROM clients WHERE id = grants.client_id)
    )
) RETURNING id
"""


class GrantTables:
    """A `GrantStore`. Memory holds what was revoked, and nothing else."""

    def __init__(
        self, database: IdentityDatabase, revocations: Revocations, *, clock: Clock
    ) -> None:
        self._database = database
        self._revocations = revocations
        self._clock = clock
        # See `GrantStore`; bound here, because every call asks the first one.
        self.is_revoked = revocations.cover
        self.revoke_grant = revocations.revoke_grant
        self.revoke_token = revocations.revoke_token

    def issue_code(self, grant: Grant, code: AuthorizationCode) -> None:
        """Store a grant, and the code that leads to its tokens."""

        def job(connection: Statements) -> None:
            _add_grant(connection, grant)
            connection.execute(_CODES.insert, _CODES.row(code))

        self._database.write(job)

    def code(self, code_hash: str) -> AuthorizationCode | None:
        return self._found(_CODES, "code_hash = ?", code_hash)

    def redeem_code(self, code_hash: str, first: RefreshToken | None, *, at: float) -> bool:
        """Use the code up and begin its family's chain: true for exactly one caller."""
        begun = self._row("SELECT grant_id FROM codes WHERE code_hash = ?", code_hash)
        return self._sign_in_once(_CODE_ONCE, (at, code_hash, at, at), first, begun, at=at)

    def begin_family(self, grant: Grant, first: RefreshToken | None) -> None:
        """Store a grant that no code led to."""

        def job(connection: Statements) -> None:
            _add_grant(connection, grant)
            _add_token(connection, first)

        self._database.write(job)

    def grant(self, grant_id: str) -> Grant | None:
        return self._found(_GRANTS, "id = ?", grant_id)

    def grants(
        self, *, user_id: str | None = None, client_id: str | None = None
    ) -> Sequence[Grant]:
        """Return what is neither revoked nor expired, newest first."""
        rows = self._database.read(
            lambda connection: connection.execute(
                f"{_GRANTS.select} WHERE revoked_at IS NULL AND expires_at > ?"
                " AND user_id = coalesce(?, user_id) AND client_id = coalesce(?, client_id)"
                " ORDER BY created_at DESC",
                (self._clock(), user_id, client_id),
            ).fetchall()
        )
        return [*map(_GRANTS.value, rows)]

    def withdrawn(self, user_id: str, client_id: str) -> bool:
        """Whether all of their grants to the client were revoked; see `GrantStore`."""
        rows = self._database.read(
            lambda connection: connection.execute(
                "SELECT revoked_at FROM grants WHERE user_id = ? AND client_id = ?",
                (user_id, client_id),
            ).fetchall()
        )
        return bool(rows) and all(revoked_at is not None for (revoked_at,) in rows)

    def refresh_token(self, token_hash: str) -> RefreshToken | None:
        return self._found(_TOKENS, "token_hash = ?", token_hash)

    def rotate(self, token_hash: str, successor: RefreshToken, *, sealed: str, at: float) -> bool:
        """Use a token up and store its successor: true for exactly one caller."""
        return self._use_once(_ROTATE, (at, sealed, token_hash, at, at), successor)

    def newest_generation(self, grant_id: str) -> int:
        """Return which generation the family's last token is of."""
        row = self._row("SELECT max(generation) FROM refresh_tokens WHERE grant_id = ?", grant_id)
        return 0 if row is None or row[0] is None else int(row[0])

    def prolong(self, token_hash: str, *, until: float, at: float) -> bool:
        """Let an unused token wait until then; false if it is used, over or of a revoked grant."""
        return self._change(_PROLONG, (until, token_hash, at, at)) == 1

    def note_again(self, token_hash: str, *, at: float) -> None:
        """Note that the successor of a used token was given again; the first time stays."""
        self._change(
            "UPDATE refresh_tokens SET again_at = ? WHERE token_hash = ? AND again_at IS NULL",
            (at, token_hash),
        )

    def note_lost(self, token_hash: str, *, at: float) -> None:
        """Note that the answer with a used token's successor could be given to nobody."""
        self._change("UPDATE refresh_tokens SET lost_at = ? WHERE token_hash = ?", (at, token_hash))

    def doubt(self, grant_id: str, *, at: float) -> None:
        """Note that somebody was refused who had a token of the family; the first time stays."""
        self._change(
            "UPDATE grants SET doubted_at = ? WHERE id = ? AND doubted_at IS NULL", (at, grant_id)
        )

    def first_use(self, issuer: str, assertion_id: str, *, until: float) -> bool:
        """Note an assertion's `jti`: true the first time."""
        noted = self._change(
            "INSERT INTO assertions (issuer, assertion_id, expires_at) VALUES (?, ?, ?)"
            " ON CONFLICT DO NOTHING",
            (issuer, assertion_id, until),
        )
        return noted == 1

    def add_device(self, request: DeviceRequest) -> None:
        """Store a device that waits.

        Raises:
            ValueError: Another one has the user code.

        """

        def job(connection: Statements) -> None:
            try:
                connection.execute(_DEVICES.insert, _DEVICES.row(request))
            except Refused as error:
                raise ValueError("another device has that user code") from error

        self._database.write(job)

    def device(self, device_hash: str) -> DeviceRequest | None:
        return self._found(_DEVICES, "device_hash = ?", device_hash)

    def device_of(self, user_code: str, *, now: float) -> DeviceRequest | None:
        """Return the pending request that a person names by its user code."""
        having = "user_code = ? AND status = 'pending' AND expires_at > ?"
        return self._found(_DEVICES, having, user_code, now)

    def poll_device(self, device_hash: str, *, at: float, interval_s: int) -> None:
        """Note when a device asked, and how long it has to wait before it asks again."""
        self._change(
            "UPDATE devices SET polled_at = ?, interval_s = ? WHERE device_hash = ?",
            (at, interval_s, device_hash),
        )

    def answer_device(
        self, device_hash: str, status: DeviceStatus, grant: Grant | None, *, now: float
    ) -> bool:
        """Answer a pending request; an approval stores its grant. True for exactly one caller.

        Raises:
            ValueError: A grant comes with anything but an approval, or an approval without one.

        """
        if (status is DeviceStatus.APPROVED) is (grant is None):
            raise ValueError("an approval, and nothing else, has a grant")

        def job(connection: Statements) -> bool:
            answered = connection.execute(
                "UPDATE devices SET status = ?, grant_id = ?"
                " WHERE device_hash = ? AND status = 'pending' AND expires_at > ?",
                (status, grant.id if grant else "", device_hash, now),
            )
            if answered.rowcount != 1:
                return False
            if grant is not None:
                _add_grant(connection, grant)
            return True

        return self._database.write(job)

    def redeem_device(self, device_hash: str, first: RefreshToken | None, *, at: float) -> bool:
        """Use an approved request up: true for exactly one caller."""
        begun = self._row("SELECT grant_id FROM devices WHERE device_hash = ?", device_hash)
        return self._sign_in_once(_DEVICE_ONCE, (device_hash, at, at), first, begun, at=at)

    def forget_expired(self, *, now: float) -> int:
        """Delete what is past its time; return how many rows those were."""

        def job(connection: Statements) -> tuple[int, Revoked]:
            return forget_expired(connection, now=now), revoked(connection, now=now)

        def committed(result: tuple[int, Revoked]) -> None:
            self._revocations.hold(result[1])

        return self._database.write(job, committed=committed)[0]

    def _use_once(self, statement: str, values: Row, then: RefreshToken | None) -> bool:
        def job(connection: Statements) -> bool:
            if connection.execute(statement, values).rowcount != 1:
                return False
            _add_token(connection, then)
            return True

        return self._database.write(job)

    def _sign_in_once(
        self,
        statement: str,
        values: Row,
        first: RefreshToken | None,
        begun: Row | None,
        *,
        at: float,
    ) -> bool:
        """Begin a family once, and end those of the same person that were in doubt."""

        def job(connection: Statements) -> tuple[bool, Sequence[str]]:
            if begun is None or connection.execute(statement, values).rowcount != 1:
                return False, ()
            _add_token(connection, first)
            ended = connection.execute(_END_DOUBTED, {"at": at, "new": begun[0]})
            return True, [grant_id for (grant_id,) in ended.fetchall()]

        def committed(result: tuple[bool, Sequence[str]]) -> None:
            self._revocations.add_grants(result[1])

        return self._database.write(job, committed=committed)[0]

    def _found(self, columns: Columns[T], having: str, *values: object) -> T | None:
        row = self._row(f"{columns.select} WHERE {having}", *values)
        return None if row is None else columns.value(row)

    def _row(self, statement: str, *values: object) -> Row | None:
        def read(connection: Statements) -> Row | None:
            return connection.execute(statement, values).fetchone()

        return self._database.read(read)

    def _change(self, statement: str, values: Row) -> int:
        return self._database.write(
            lambda connection: connection.execute(statement, values).rowcount
        )


def _add_grant(connection: Statements, grant: Grant) -> None:
    connection.execute(_GRANTS.insert, _GRANTS.row(grant))


def _add_token(connection: Statements, token: RefreshToken | None) -> None:
    if token is not None:
        connection.execute(_TOKENS.insert, _TOKENS.row(token))
