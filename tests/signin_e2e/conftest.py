"""One browser and one gateway for a whole session of tests, over http, and one over https."""

import asyncio
from collections.abc import Iterator

import pytest

from tests.servers.fixtures import notes
from tests.servers.process import RunningServer
from tests.signin_e2e.authority import Authority, make_authority
from tests.signin_e2e.browser import Chromium, Person, chromium
from tests.signin_e2e.documents import Documents, documents
from tests.signin_e2e.house import House, egress, house, welcome

__all__ = ["notes"]


@pytest.fixture(scope="session")
def authority(tmp_path_factory: pytest.TempPathFactory) -> Authority:
    return make_authority(tmp_path_factory.mktemp("authority"))


@pytest.fixture(scope="session")
def browser(authority: Authority) -> Iterator[Chromium]:
    with chromium(trusted_keys=[authority.pin]) as running:
        yield running


@pytest.fixture(scope="session")
def published(authority: Authority) -> Iterator[Documents]:
    with documents(authority) as running:
        yield running


@pytest.fixture(scope="session")
def gateway(
    tmp_path_factory: pytest.TempPathFactory,
    notes: RunningServer,
    published: Documents,
    authority: Authority,
    browser: Chromium,
) -> Iterator[House]:
    """Knows Emma."""
    folder = tmp_path_factory.mktemp("gateway")
    with house(folder, notes, published, egress=egress(authority)) as running:
        asyncio.run(welcome(running.running, browser))
        yield running


@pytest.fixture(scope="session")
def secure_gateway(
    tmp_path_factory: pytest.TempPathFactory,
    notes: RunningServer,
    published: Documents,
    authority: Authority,
    browser: Chromium,
) -> Iterator[House]:
    """Knows Emma, and speaks https."""
    folder = tmp_path_factory.mktemp("secure-gateway")
    with house(folder, notes, published, tls=authority, egress=egress(authority)) as running:
        asyncio.run(welcome(running.running, browser))
        yield running


@pytest.fixture
def emma(gateway: House, browser: Chromium) -> Iterator[Person]:
    """In a fresh browser, not signed in yet."""
    with gateway.emma(browser) as person:
        yield person
