"""A house for every test that asks for one."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.oauth.house import House
from tests.oauth.issuing import Issuer


@pytest.fixture
def house(tmp_path: Path) -> Iterator[House]:
    house = House(tmp_path)
    yield house
    house.stores.close()


@pytest.fixture
def issuer(tmp_path: Path) -> Iterator[Issuer]:
    issuer = Issuer(tmp_path)
    yield issuer
    issuer.stores.close()
