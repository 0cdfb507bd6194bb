"""People's connections to upstream servers, and who may refresh them now."""

from collections.abc import Sequence

from gateway.domain.secrets import StoredConnection
from gateway.storage.identity.remembered import Columns, Row, listed
from gateway.storage.identity.statements import IdentityDatabase, Refused, Statements
from gateway.storage.identity.users import nobody

_CONNECTIONS = Columns(StoredConnection, "connections")

# The version only ever grows: who still refreshes the connection before cannot mistake this one
# for it.
_CONNECT = f"""
{_CONNECTIONS.insert} ON CONFLICT (user_id, server) DO UPDATE SET
issuer = excluded.issuer, sealed = excluded.sealed, scopes = excluded.scopes,
expires_at = excluded.expires_at, version = CASE WHEN excluded.version > connections.version
THEN excluded.version ELSE connections.version + 1 END,
connected_at = excluded.connected_at, refreshed_at = excluded.refreshed_at,
leased_by = '', leased_until = 0
"""

_REPLACE = """
UPDATE connections SET sealed = ?, scopes = ?, expires_at = ?, version = ?, refreshed_at = ?,
leased_by = '', leased_until = 0
WHERE user_id = ? AND server = ? AND issuer = ? AND version = ? - 1 AND leased_by = ?
"""


class ConnectionTables:
    """A `ConnectionStore`."""

    def __init__(self, database: IdentityDatabase) -> None:
        self._database = database

    def connection(self, user_id: str, server: str) -> StoredConnection | None:
        found = self._rows(
            f"{_CONNECTIONS.select} WHERE user_id = ? AND server = ?", user_id, server
        )
        return _CONNECTIONS.value(found[0]) if found else None

    def connections(self, user_id: str | None = None) -> Sequence[StoredConnection]:
        """Return a person's connections, or everybody's, by person and server."""
        rows = self._rows(
            f"{_CONNECTIONS.select} WHERE user_id = coalesce(?, user_id) ORDER BY user_id, server",
            user_id,
        )
        return [*map(_CONNECTIONS.value, rows)]

    def connect(self, connection: StoredConnection) -> None:
        """Store a new connection in place of an earlier one, under a version of its own.

        Raises:
            LookupError: There is no such person.

        """
        row = _CONNECTIONS.row(connection)

        def job(database: Statements) -> None:
            try:
                database.execute(_CONNECT, row)
            except Refused as error:
                raise nobody() from error

        self._database.write(job)

    def disconnect(self, user_id: str, server: str, *, version: int | None = None) -> bool:
        """Forget a connection, with `version` only that one; false if there is none."""
        forgotten = self._change(
            "DELETE FROM connections WHERE user_id = ? AND server = ? AND version = coalesce(?, version)",
            user_id,
            server,
            version,
        )
        return forgotten == 1

    def lease(self, user_id: str, server: str, *, by: str, now: float, until: float) -> bool:
        """Take the right to refresh: true for one holder, until it lets go or expires."""
        taken = self._change(
            "UPDATE connections SET leased_by = ?, leased_until = ?"
            " WHERE user_id = ? AND server = ? AND (leased_by = '' OR leased_until <= ?)",
            by,
            until,
            user_id,
            server,
            now,
        )
        return taken == 1

    def replace(self, connection: StoredConnection, *, by: str) -> bool:
        """Store refreshed tokens over version `connection.version - 1` and let the lease go.

        False, and nothing is stored, if the lease or the version is another's by now.
        """
        replaced = self._change(
            _REPLACE,
            connection.sealed,
            listed(connection.scopes),
            connection.expires_at,
            connection.version,
            connection.refreshed_at,
            connection.user_id,
            connection.server,
            connection.issuer,
            connection.version,
            by,
        )
        return replaced == 1

    def release(self, user_id: str, server: str, *, by: str) -> None:
        """Let the lease go, if it is still this holder's."""
        self._change(
            "UPDATE connections SET leased_by = '', leased_until = 0"
            " WHERE user_id = ? AND server = ? AND leased_by = ?",
            user_id,
            server,
            by,
        )

    def registration(self, server: str, issuer: str) -> str:
        """Return the sealed client registration at `issuer` for `server`; or nothing."""
        found = self._rows(
            "SELECT sealed FROM registrations WHERE server = ? AND issuer = ?", server, issuer
        )
        return str(found[0][0]) if found else ""

    def register(self, server: str, issuer: str, sealed: str) -> None:
        """Store a registration in place of an earlier one."""
        self._change(
            "INSERT INTO registrations (server, issuer, sealed) VALUES (?, ?, ?)"
            " ON CONFLICT (server, issuer) DO UPDATE SET sealed = excluded.sealed",
            server,
            issuer,
            sealed,
        )

    def _rows(self, statement: str, *values: object) -> Sequence[Row]:
        return self._database.read(
            lambda connection: connection.execute(statement, values).fetchall()
        )

    def _change(self, statement: str, *values: object) -> int:
        return self._database.write(
            lambda connection: connection.execute(statement, values).rowcount
        )
