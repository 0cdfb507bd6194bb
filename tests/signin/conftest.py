"""A house for every test that asks for one."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from gateway.signin import passwords
from tests.signin.house import House


@pytest.fixture
def house(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[House]:
    """Passwords are hashed cheaply here; what they cost is held by `test_passwords.py`."""
    monkeypatch.setattr(passwords, "_MEMORY_KIB", 64)
    house = House(tmp_path)
    yield house
    house.stores.close()
