"""Registered OAuth clients in SQLite, read from memory."""

import json
import sqlite3
from collections.abc import Sequence
from typing import Any

from gateway.domain.identity import Client
from gateway.storage.writer import Writer

_COLUMNS = (
    "id, name, secret_hash, grants, resources, scopes, groups, trusted_host, created_at, created_by"
)


class SqliteClientStore:
    """A `ClientStore`. Memory holds what is committed, and nothing else."""

    def __init__(self, writer: Writer, connection: sqlite3.Connection) -> None:
        """Load every client through `connection`, which is not needed afterwards."""
        self._writer = writer
        rows = connection.execute(f"SELECT {_COLUMNS} FROM clients")  # noqa: S608 - fixed text
        self._clients = {row[0]: _client(row) for row in rows}

    def find(self, client_id: str) -> Client | None:
        return self._clients.get(client_id)

    def all(self) -> Sequence[Client]:
        return sorted(self._clients.values(), key=lambda client: client.name)

    async def add(self, client: Client) -> None:
        """Store a new client, durable on return.

        Raises:
            ValueError: The id or the name is taken.

        """

        def job(connection: sqlite3.Connection) -> Client:
            try:
                _insert(connection, client)
            except sqlite3.IntegrityError as error:
                raise already_taken(client) from error
            return client

        await self._writer.run(job, committed=self._remember)

    async def remove(self, client_id: str) -> Client | None:
        """Forget a client, durable on return; `None` if there is none of that id."""
        if client_id not in self._clients:
            return None

        def job(connection: sqlite3.Connection) -> str:
            connection.execute("DELETE FROM clients WHERE id = ?", (client_id,))
            return client_id

        removed = self._clients[client_id]
        await self._writer.run(job, committed=self._forget)
        return removed

    def _remember(self, client: Client) -> None:
        self._clients[client.id] = client

    def _forget(self, client_id: str) -> None:
        self._clients.pop(client_id, None)


def already_taken(client: Client) -> ValueError:
    """Return what `add` raises for an id or a name that another client has."""
    return ValueError(f"there is a client of that id or name already: {client.name}")


def _insert(connection: sqlite3.Connection, client: Client) -> None:
    connection.execute(
        f"INSERT INTO clients ({_COLUMNS}) VALUES ({', '.join('?' * 10)})",  # noqa: S608 - fixed text
        (
            client.id,
            client.name,
            client.secret_hash,
            json.dumps(client.grants),
            json.dumps(sorted(client.resources)),
            json.dumps(sorted(client.scopes)),
            json.dumps(sorted(client.groups)),
            int(client.trusted_host),
            client.created_at,
            client.created_by,
        ),
    )


def _client(row: tuple[Any, ...]) -> Client:
    client_id, name, secret_hash, grants, resources, scopes, groups = row[:7]
    trusted_host, created_at, created_by = row[7:]
    return Client(
        id=client_id,
        name=name,
        secret_hash=secret_hash,
        grants=tuple(json.loads(grants)),
        resources=frozenset(json.loads(resources)),
        scopes=frozenset(json.loads(scopes)),
        groups=frozenset(json.loads(groups)),
        trusted_host=bool(trusted_host),
        created_at=created_at,
        created_by=created_by,
    )
