"""One identity database of each kind, open twice, as if by two processes."""

import pytest

from gateway.storage.identity.store import IdentityStores
from tests.storage.identity.identities import Hand
from tests.storage.identity.places import emptied, opened


@pytest.fixture
def clock():
    return Hand()


@pytest.fixture(params=["sqlite", "postgres"])
def place(request, tmp_path):
    """Where the database is that a test is about."""
    if request.param == "sqlite":
        return str(tmp_path)
    return emptied(request.getfixturevalue("postgres"))


@pytest.fixture
def stores(place, clock):
    found = opened(place, clock=clock, made=True)
    yield found
    found.close()


@pytest.fixture
def elsewhere(place, clock, stores):
    """The same database as another process sees it."""
    found = opened(place, clock=clock, made=True)
    yield found
    found.close()


@pytest.fixture
def filed(tmp_path, clock):
    """A database in a file, for what only files do."""
    found = IdentityStores.open(tmp_path, clock=clock)
    yield found
    found.close()
