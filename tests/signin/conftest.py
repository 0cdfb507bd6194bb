"""A house for every test that asks for one."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.signin.house import House


@pytest.fixture
def house(tmp_path: Path) -> Iterator[House]:
    house = House(tmp_path)
    yield house
    house.stores.close()
