"""What tests of what is stored share."""

from collections.abc import AsyncIterator, Callable
from contextlib import AbstractContextManager, closing
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from gateway.storage import writer
from tests.storage.logged import indexed
from tests.storage.placed import PLACES, Place, placed

if TYPE_CHECKING:
    from gateway.storage.ready_answers import ReadyAnswers
    from tests.postgres import Postgres

Asking = Callable[[Path], AbstractContextManager["ReadyAnswers"]]


@pytest.fixture(params=PLACES)
async def place(request: pytest.FixtureRequest, tmp_path: Path) -> AsyncIterator[Place]:
    """Where the state is that a test is about."""
    async with placed(request, tmp_path) as found:
        yield found


@pytest.fixture
def unhurried(monkeypatch: pytest.MonkeyPatch) -> None:
    """The database takes up what is in the journal when it must, and not before."""
    monkeypatch.setattr(writer, "_LATER_S", 3600.0)


@pytest.fixture(scope="session")
def copies(postgres: "Postgres") -> str:
    """The address of a database that logs are copied into, one after the other."""
    from gateway.storage.postgres.connection import connect
    from gateway.storage.postgres.log_tables import LOG
    from gateway.storage.postgres.migrations import migrate
    from gateway.storage.postgres.reading_tables import READING

    address = postgres.fresh()
    with closing(connect(address, application="test")) as connection:
        migrate(connection, LOG, READING)
    return address


@pytest.fixture(params=["sqlite", "postgres"])
def asking(request: pytest.FixtureRequest) -> Asking:
    """What gives the answers about the log in a folder: as it is there, or as it is copied."""
    if request.param == "sqlite":
        return indexed
    from tests.storage.copied import indexing_at

    at: Asking = indexing_at(request.getfixturevalue("copies"))
    return at
