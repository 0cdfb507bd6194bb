"""Clients of a data directory from before there was an identity database."""

import sqlite3
from contextlib import closing
from pathlib import Path

from gateway.domain.identity import Client
from gateway.errors import ConfigError
from gateway.storage.connection import open_reader
from gateway.storage.database import DATABASE
from gateway.storage.identity.clients import add_client
from gateway.storage.identity.remembered import Columns
from gateway.storage.identity.statements import IdentityDatabase, Statements

_EARLIER = Columns(
    Client,
    "clients",
    only=(
        "id",
        "name",
        "secret_hash",
        "grants",
        "resources",
        "scopes",
        "groups",
        "trusted_host",
        "created_at",
        "created_by",
    ),
)

_DONE = 1
"""The database's `user_version` once it has been done; before, SQLite has it 0."""


def take_over_clients(database: IdentityDatabase, data_dir: Path) -> None:
    """Store the clients of the earlier table, where there is one, once and for all.

    Raises:
        ConfigError: The earlier database cannot be read.
        IdentityUnavailable: The identity database cannot be written.

    """
    if database.read(_is_done):
        return
    path = data_dir / DATABASE

    def job(connection: Statements) -> None:
        if _is_done(connection):  # by another process, meanwhile
            return
        for client in _earlier(path):
            add_client(connection, client)
        # Part of the transaction: a removed client never comes back by a second taking over.
        connection.execute(f"PRAGMA user_version = {_DONE}")

    database.write(job)


def _is_done(connection: Statements) -> bool:
    ((version,),) = connection.execute("PRAGMA user_version")
    return int(version) >= _DONE


def _earlier(path: Path) -> list[Client]:
    if not path.exists():
        return []
    with closing(open_reader(path)) as connection:
        try:
            table = connection.execute(
                "SELECT 1 FROM sqlite_master WHERE type = 'table' AND name = 'clients'"
            ).fetchone()
            if table is None:
                return []
            return [*map(_EARLIER.value, connection.execute(_EARLIER.select))]
        except (sqlite3.Error, ValueError) as error:
            raise ConfigError(f"{path} cannot be read: {error}") from error
