"""Where state is kept that a test is about: in a file of SQLite's, or in tables of PostgreSQL."""

import atexit
import functools
from collections.abc import AsyncIterator, Iterator, Sequence
from contextlib import AbstractContextManager, asynccontextmanager, closing, contextmanager
from pathlib import Path
from typing import Any, Final, Protocol

import psycopg
import pytest

from gateway.ports import Clock
from gateway.storage.connection import open_reader
from gateway.storage.database import DATABASE
from gateway.storage.postgres.board_tables import BOARD
from gateway.storage.postgres.connection import connect
from gateway.storage.postgres.identity_tables import IDENTITY
from gateway.storage.postgres.log_tables import LOG
from gateway.storage.postgres.migrations import migrate
from gateway.storage.postgres.state import SharedState
from gateway.storage.postgres.state_tables import STATE
from gateway.storage.state import StateWriter, Tables
from gateway.storage.store import Store
from tests.postgres import Postgres

PLACES: Final = ("sqlite", "postgres")
PATIENCE_S: Final = 60.0
_TABLES: Final = (
    *("pins", "approvals", "parked_scripts", "script_grants", "scripts", "late_calls"),
    *("server_choices", "front_sessions_ended", "front_subscriptions", "plane_debts"),
    *("baselines", "state_news", "run_sources", "runs", "run_owners", "tray"),
)
_EMPTY: Final = "".join(f"DELETE FROM {table};" for table in _TABLES).encode()


class Place(Protocol):
    writer: StateWriter

    def reading(self) -> AbstractContextManager[Tables]:
        """Give what stores are filled through."""
        ...

    def rows(self, statement: str) -> Sequence[tuple[Any, ...]]:
        """Return what is in the tables."""
        ...


class SqlitePlace:
    def __init__(self, store: Store) -> None:
        self.store = store
        self.writer: StateWriter = store.writer

    @contextmanager
    def reading(self) -> Iterator[Tables]:
        with closing(open_reader(self.store.data_dir / DATABASE)) as connection:
            yield connection

    def rows(self, statement: str) -> Sequence[tuple[Any, ...]]:
        with self.reading() as tables:
            return tables.execute(statement).fetchall()


class PostgresPlace:
    def __init__(self, address: str, state: SharedState) -> None:
        self.address = address
        self.state = state
        self.writer: StateWriter = state

    def reading(self) -> AbstractContextManager[Tables]:
        return self.state.reading()

    def rows(self, statement: str) -> Sequence[tuple[Any, ...]]:
        with self.reading() as tables:
            return tables.execute(statement).fetchall()


@asynccontextmanager
async def placed(
    request: pytest.FixtureRequest, folder: Path, *, clock: Clock = lambda: 0.0
) -> AsyncIterator[Place]:
    """Open the place that `request` is for."""
    if request.param == "sqlite":
        store = await Store.open(folder / "var", clock=clock)
        yield SqlitePlace(store)
        await store.close()
        return
    address = emptied(request.getfixturevalue("postgres"))
    async with shared(address) as state:
        yield PostgresPlace(address, state)


@asynccontextmanager
async def shared(address: str, **more: Any) -> AsyncIterator[SharedState]:
    """Open the state there as one replica does. What others commit is seen when it is asked for."""
    state = SharedState.open(address, **{"deadline_s": PATIENCE_S, **more})
    yield state
    await state.close()


def emptied(server: Postgres) -> str:
    """Return the address of a database of this process, whose tables are there and empty."""
    address, connection = _made(server)
    connection.execute(_EMPTY)
    return address


def with_state(address: str) -> None:
    """Make all tables there."""
    with closing(connect(address, application="test")) as connection:
        migrate(connection, IDENTITY, LOG, STATE, BOARD)


@functools.cache
def _made(server: Postgres) -> tuple[str, "psycopg.Connection[Any]"]:
    address = server.fresh()
    with_state(address)
    connection = psycopg.connect(address, autocommit=True)
    atexit.register(connection.close)
    return address, connection
