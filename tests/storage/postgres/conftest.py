"""What tests of the log in PostgreSQL share."""

from collections.abc import Iterator
from contextlib import closing

import pytest

from gateway.storage.postgres.board_tables import BOARD
from gateway.storage.postgres.connection import Connection, connect
from gateway.storage.postgres.identity_tables import IDENTITY
from gateway.storage.postgres.log_tables import LOG
from gateway.storage.postgres.migrations import migrate
from gateway.storage.postgres.reading_tables import READING
from tests.postgres import Postgres


@pytest.fixture(scope="session")
def log_template(postgres: Postgres) -> str:
    """The name of a database with the log's tables, to be copied."""
    address = postgres.fresh()
    with closing(connect(address, application="test")) as connection:
        migrate(connection, IDENTITY, LOG, BOARD, READING)
        return connection.info.dbname


@pytest.fixture
def address(postgres: Postgres, log_template: str) -> str:
    """The address of a database of one's own, with the log's tables."""
    return postgres.fresh(template=log_template)


@pytest.fixture
def owner(address: str) -> Iterator[Connection]:
    """A connection of whoever owns the tables."""
    with closing(connect(address, application="test")) as opened:
        yield opened
