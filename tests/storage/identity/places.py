"""Where an identity database is: a folder, or an address of PostgreSQL. Racing processes are told it, too."""

import atexit
import functools
from pathlib import Path
from typing import Any

import psycopg

from gateway.ports import Clock
from gateway.storage.identity.store import IdentityStores
from gateway.storage.postgres.identity import PostgresIdentityDatabase, open_identity
from tests.postgres import Postgres

_TABLES = (
    "standing_answers, codes, refresh_tokens, devices, grants, revoked_tokens, assertions, links,"
    " sessions, transactions, consents, connections, registrations, clients, users, data_keys,"
    " signing_keys, keys, disclosures"
)
_EMPTY = "".join(f"DELETE FROM {table};" for table in _TABLES.split(", ")).encode()


@functools.cache
def _made(server: Postgres) -> tuple[str, "psycopg.Connection[Any]"]:
    address = server.fresh()
    PostgresIdentityDatabase.open(address).close()
    connection = psycopg.connect(address, autocommit=True)
    atexit.register(connection.close)
    return address, connection


def emptied(server: Postgres) -> str:
    """Return the address of a database of this process, whose identity tables are there and empty."""
    address, connection = _made(server)
    connection.execute(_EMPTY)
    return address


def opened(place: str, *, clock: Clock, made: bool = False) -> IdentityStores:
    """Open it; with `made` the tables are known to be there."""
    if not place.startswith("postgresql:"):
        return IdentityStores.open(Path(place), clock=clock)
    if made:
        return IdentityStores(PostgresIdentityDatabase(place), clock=clock)
    return open_identity(place, clock=clock)
