"""What was revoked, in memory: asked about at every call."""

from collections.abc import Iterable, Sequence
from typing import Final, NamedTuple

from gateway.ports import Clock
from gateway.storage.identity.expiry import GRANT_KEPT_S
from gateway.storage.identity.statements import IdentityDatabase, Statements

_HELD_S: Final = 2 * GRANT_KEPT_S
"""Seconds after which no token of a revoked grant is valid, with a day for clocks that differ."""


class Revoked(NamedTuple):
    """Names of revoked families and tokens."""

    grants: set[str]
    tokens: set[str]


class Revocations:
    """What was revoked and may still have tokens, whichever process revoked it."""

    def __init__(self, database: IdentityDatabase, *, clock: Clock) -> None:
        self._database = database
        self._grants: set[str] = set()
        self._tokens: set[str] = set()
        database.remembers(lambda connection: self.hold(revoked(connection, now=clock())))

    def cover(self, grant_id: str, token_id: str) -> bool:
        """Whether the token or its family was revoked."""
        return grant_id in self._grants or token_id in self._tokens

    def hold(self, found: Revoked) -> None:
        """Hold these and nothing else."""
        self._grants, self._tokens = found

    def add_grants(self, grant_ids: Iterable[str]) -> None:
        """Hold these families, too, once their revocation is committed."""
        self._grants.update(grant_ids)

    def revoke_grant(self, grant_id: str, reason: str, *, at: float) -> bool:
        """Revoke a family; false if it was revoked already."""
        families = self._database.write(
            lambda connection: revoke_grants(connection, at=at, reason=reason, id=grant_id),
            committed=self.add_grants,
        )
        return len(families) == 1

    def revoke_token(self, token_id: str, *, until: float) -> None:
        """Revoke one access token that belongs to no family."""

        def job(connection: Statements) -> None:
            connection.execute(
                "INSERT INTO revoked_tokens (token_id, expires_at) VALUES (?, ?) ON CONFLICT"
                " (token_id) DO UPDATE SET expires_at = excluded.expires_at"
                " WHERE revoked_tokens.expires_at < excluded.expires_at",
                (token_id, until),
            )

        def committed(_: None) -> None:
            self._tokens.add(token_id)

        self._database.write(job, committed=committed)


def revoked(connection: Statements, *, now: float) -> Revoked:
    """Return what the database has as revoked, as long as a token of it may be valid.

    A grant stays for months, and is asked about at every call no longer than for days: each is some
    hundred bytes, and who is let in can begin and end very many.
    """
    grants = connection.execute("SELECT id FROM grants WHERE revoked_at > ?", (now - _HELD_S,))
    tokens = connection.execute("SELECT token_id FROM revoked_tokens")
    return Revoked({name for (name,) in grants}, {name for (name,) in tokens})


def revoke_grants(connection: Statements, *, at: float, reason: str, **which: str) -> Sequence[str]:
    """Revoke what is not revoked yet where every column of `which` has its value; return the ids.

    The columns are named in this package, never by a request.
    """
    having = " AND ".join(f"{column} = ?" for column in which)
    found = connection.execute(
        "UPDATE grants SET revoked_at = ?, reason = ?"  # noqa: S608 - fixed names
        f" WHERE revoked_at IS NULL AND {having} RETURNING id",
        (at, reason, *which.values()),
    )
    return [grant_id for (grant_id,) in found.fetchall()]
