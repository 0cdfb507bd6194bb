"""OAuth clients, read from memory."""

import itertools
from collections.abc import Sequence

from gateway.domain.identity import PROGRAM, Client, ClientKind
from gateway.ports import Clock
from gateway.storage.identity.remembered import Columns, Remembered, Row
from gateway.storage.identity.revocations import Revocations, revoke_grants
from gateway.storage.identity.statements import IdentityDatabase, Refused, Statements

_CLIENTS = Columns(Client, "clients")
_REFRESH = (
    f"{_CLIENTS.insert} ON CONFLICT (id) DO UPDATE SET "
    + ", ".join(f"{column} = excluded.{column}" for column in _CLIENTS.names[1:])
    + " WHERE clients.kind = 'document'"
)
_INHERIT = f"UPDATE clients SET created_by = ? WHERE created_by = ? RETURNING {_CLIENTS.list}"  # noqa: S608 - fixed names

_NO_ANSWERS = """
UPDATE standing_answers SET ended = 'the client is another one by now'
WHERE ended = '' AND client_id = ? AND given_at < ?
"""
"""Of those that were given to what a document said before."""

_UNUSED = """
SELECT id FROM clients WHERE kind <> 'registered' AND created_at < ?
AND id NOT IN (SELECT client_id FROM grants WHERE revoked_at IS NULL AND expires_at > ?)
AND id NOT IN (SELECT client_id FROM consents)
"""


class ClientTables:
    """A `ClientStore`. Memory holds what is committed, and nothing else."""

    def __init__(
        self, database: IdentityDatabase, revocations: Revocations, *, clock: Clock
    ) -> None:
        self._database = database
        self._revocations = revocations
        self._clock = clock
        self._memory = Remembered(_CLIENTS.value)
        database.remembers(
            lambda connection: self._memory.fill(connection.execute(_CLIENTS.select))
        )

    def find(self, client_id: str) -> Client | None:
        return self._memory.values.get(client_id)

    def all(self) -> Sequence[Client]:
        """Return every client, by name."""
        return sorted(self._memory.values.values(), key=lambda client: (client.name, client.id))

    def add(self, client: Client) -> None:
        """Store a new client; see `ClientStore`."""

        def job(connection: Statements) -> Row:
            try:
                add_client(connection, client)
            except Refused as error:
                raise already_taken(client) from error
            return _row_of(connection, client.id)

        self._database.write(job, committed=self._memory.put)

    def refresh(self, client: Client) -> None:
        """Store what a `DOCUMENT` says now; if that is something else, no answer of before stands.

        Raises:
            ValueError: The id is that of a client of another kind.

        """
        if client.kind is not ClientKind.DOCUMENT:
            raise ValueError("only a client that is a document can be refreshed")

        def job(connection: Statements) -> Row:
            if connection.execute(_REFRESH, _CLIENTS.row(client)).rowcount != 1:
                raise already_taken(client)
            connection.execute(_NO_ANSWERS, (client.id, client.created_at))
            return _row_of(connection, client.id)

        self._database.write(job, committed=self._memory.put)

    def remove(self, client_id: str) -> Client | None:
        """Forget a client and what people consented to, and revoke its grants; see `ClientStore`."""

        def job(connection: Statements) -> tuple[Client | None, Sequence[str], Sequence[Row]]:
            row = connection.execute(f"{_CLIENTS.select} WHERE id = ?", (client_id,)).fetchone()
            if row is None:
                return None, (), ()
            found = _CLIENTS.value(row)
            revoked = _forget(connection, client_id, at=self._clock())
            by = found.created_by, f"{PROGRAM}{client_id}"
            return found, revoked, connection.execute(_INHERIT, by).fetchall()

        def committed(result: tuple[Client | None, Sequence[str], Sequence[Row]]) -> None:
            self._revocations.add_grants(result[1])
            self._memory.drop([client_id])
            for row in result[2]:
                self._memory.put(row)

        return self._database.write(job, committed=committed)[0]

    def remove_unused(self, before: float) -> int:
        """Forget `DYNAMIC` and `DOCUMENT` clients made before then that nobody lets in."""

        def job(connection: Statements) -> tuple[Sequence[str], Sequence[str]]:
            now = self._clock()
            unused = [found for (found,) in connection.execute(_UNUSED, (before, now))]
            revoked = [_forget(connection, client_id, at=now) for client_id in unused]
            return unused, [*itertools.chain.from_iterable(revoked)]

        def committed(result: tuple[Sequence[str], Sequence[str]]) -> None:
            unused, revoked = result
            self._revocations.add_grants(revoked)
            self._memory.drop(unused)

        return len(self._database.write(job, committed=committed)[0])


def add_client(connection: Statements, client: Client) -> None:
    """Insert a new client.

    Raises:
        Refused: The id or the name is taken.

    """
    connection.execute(_CLIENTS.insert, _CLIENTS.row(client))


def already_taken(client: Client) -> ValueError:
    """Return what `add` raises for an id or a name that another client has."""
    return ValueError(f"there is a client of that id or name already: {client.name}")


def _forget(connection: Statements, client_id: str, *, at: float) -> Sequence[str]:
    """Return the grants that were revoked with it."""
    connection.execute("DELETE FROM clients WHERE id = ?", (client_id,))
    connection.execute("DELETE FROM consents WHERE client_id = ?", (client_id,))
    return revoke_grants(connection, at=at, reason="client removed", client_id=client_id)


def _row_of(connection: Statements, client_id: str) -> Row:
    (found,) = connection.execute(f"{_CLIENTS.select} WHERE id = ?", (client_id,))
    return found
