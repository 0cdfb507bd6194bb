"""What was revoked, in memory: asked about at every call."""

import sqlite3
from collections.abc import Iterable, Sequence
from typing import NamedTuple

from gateway.storage.identity.database import IdentityDatabase


class Revoked(NamedTuple):
    """Names of revoked families and tokens."""

    grants: set[str]
    tokens: set[str]


class Revocations:
    """Every revoked grant and token that the database still has, whichever process revoked it."""

    def __init__(self, database: IdentityDatabase) -> None:
        self._grants: set[str] = set()
        self._tokens: set[str] = set()
        database.remembers(lambda connection: self.hold(revoked(connection)))

    def cover(self, grant_id: str, token_id: str) -> bool:
        """Whether the token or its family was revoked."""
        return grant_id in self._grants or token_id in self._tokens

    def hold(self, found: Revoked) -> None:
        """Hold these and nothing else."""
        self._grants, self._tokens = found

    def add_grants(self, grant_ids: Iterable[str]) -> None:
        """Hold these families, too, once their revocation is committed."""
        self._grants.update(grant_ids)

    def add_token(self, token_id: str) -> None:
        """Hold this token, too, once its revocation is committed."""
        self._tokens.add(token_id)


def revoked(connection: sqlite3.Connection) -> Revoked:
    """Return what the database has as revoked."""
    grants = connection.execute("SELECT id FROM grants WHERE revoked_at IS NOT NULL")
    tokens = connection.execute("SELECT token_id FROM revoked_tokens")
    return Revoked({name for (name,) in grants}, {name for (name,) in tokens})


def revoke_grants(
    connection: sqlite3.Connection, *, at: float, reason: str, **which: str
) -> Sequence[str]:
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
