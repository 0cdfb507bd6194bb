"""One identity database, open twice, as if by two processes."""

import pytest

from gateway.storage.identity.store import IdentityStores
from tests.storage.identity.identities import Hand


@pytest.fixture
def clock():
    return Hand()


@pytest.fixture
def stores(tmp_path, clock):
    opened = IdentityStores.open(tmp_path, clock=clock)
    yield opened
    opened.close()


@pytest.fixture
def elsewhere(tmp_path, clock, stores):
    """The same database as another process sees it."""
    opened = IdentityStores.open(tmp_path, clock=clock)
    yield opened
    opened.close()
